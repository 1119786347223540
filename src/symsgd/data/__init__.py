"""Data sets."""

from symsgd.data.twins import TWINS, Twin, twin

__all__ = ["TWINS", "Twin", "twin"]
