"""Data sets: readers, stores, public sets, and synthetic twins of the paper's."""

from symsgd.data.conversion import append, convert
from symsgd.data.dataset import Dataset, Schema
from symsgd.data.fetching import PublicReader, fetch, read_public
from symsgd.data.matrices import MatrixReader, read_matrix
from symsgd.data.registry import PUBLIC_SETS
from symsgd.data.store import Store, StoreWriter
from symsgd.data.store import open_store as open
from symsgd.data.svmlight import SvmlightReader, read_svmlight
from symsgd.data.tables import feature_name, read_csv, read_parquet
from symsgd.data.twins import TWINS, Twin, twin, twin_readers
from symsgd.data.vowpal import VowpalReader, read_vowpal

__all__ = [
    "PUBLIC_SETS",
    "TWINS",
    "Dataset",
    "MatrixReader",
    "PublicReader",
    "Schema",
    "Store",
    "StoreWriter",
    "SvmlightReader",
    "Twin",
    "VowpalReader",
    "append",
    "convert",
    "feature_name",
    "fetch",
    "open",
    "read_csv",
    "read_matrix",
    "read_parquet",
    "read_public",
    "read_svmlight",
    "read_vowpal",
    "twin",
    "twin_readers",
]
