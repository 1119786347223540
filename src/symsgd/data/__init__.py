"""Data sets."""

from symsgd.data.dataset import Dataset, Schema
from symsgd.data.svmlight import SvmlightReader, read_svmlight
from symsgd.data.tables import read_csv, read_parquet
from symsgd.data.twins import TWINS, Twin, twin

__all__ = [
    "TWINS",
    "Dataset",
    "Schema",
    "SvmlightReader",
    "Twin",
    "read_csv",
    "read_parquet",
    "read_svmlight",
    "twin",
]
