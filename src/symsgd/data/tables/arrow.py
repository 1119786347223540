"""pyarrow, or an error that says how to get it."""

from __future__ import annotations

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise ImportError("CSV and Parquet are read by pyarrow, which is not here: pip install 'symsgd[tables]'") from error

__all__ = ["pa", "pc"]
