"""Data sets: readers, stores, and synthetic twins of the paper's."""

from symsgd.data.conversion import append, convert
from symsgd.data.dataset import Dataset, Schema
from symsgd.data.store import Store, StoreWriter
from symsgd.data.store import open_store as open
from symsgd.data.svmlight import SvmlightReader, read_svmlight
from symsgd.data.tables import read_csv, read_parquet
from symsgd.data.twins import TWINS, Twin, twin, twin_readers
from symsgd.data.vowpal import VowpalReader, read_vowpal

__all__ = [
    "TWINS",
    "Dataset",
    "Schema",
    "Store",
    "StoreWriter",
    "SvmlightReader",
    "Twin",
    "VowpalReader",
    "append",
    "convert",
    "open",
    "read_csv",
    "read_parquet",
    "read_svmlight",
    "read_vowpal",
    "twin",
    "twin_readers",
]
