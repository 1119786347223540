"""Data sets."""

from symsgd.data.dataset import Dataset, Schema
from symsgd.data.twins import TWINS, Twin, twin

__all__ = ["TWINS", "Dataset", "Schema", "Twin", "twin"]
