"""Tables: an input is a CSV file, a Parquet file, or the schema by which another is read."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from fuzz.forms import FOLDER, named
from symsgd.data import Schema
from symsgd.data.tables import read_csv, read_parquet
from symsgd.errors import DataError

CSV, PARQUET = FOLDER / "rows.csv", FOLDER / "rows.parquet"
TEXT = b"y,x,c,t,u\nyes,1,red,a b,7\nno,-2.5,green,b,8\nyes,,red,,7\n"
OPTIONS = {"label": "y", "text": ["t"], "hashed": ["u"], "missing": "indicator", "hash_bits": 4}


def _schemas() -> list[bytes]:
    made = []
    for options in (OPTIONS, {"label": "y", "drop": ["t", "u"], "missing": "zero"}):
        made.append(
            json.dumps(read_csv(io.BytesIO(TEXT), label_names=["no", "yes"], **options).schema.to_json()).encode()
        )
    return made


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"x": [1.0, 2.0, None], "c": ["a", "b", "a"], "y": [0, 1, 0]}), out)
    return out.getvalue()


SEEDS = [b"\0" + TEXT, b'\0\xef\xbb\xbfu,y,t\r\n1,2,"a\nb"\r\n', b"\2" + _parquet()]
SEEDS += [b"\1" + own for own in _schemas()]


def attempt(data: bytes) -> bool:
    """Whether it was taken for good."""
    head, rest = data[0] % 3 if data else 0, bytes(data[1:])
    try:
        match head:
            case 0:
                CSV.write_bytes(rest)
                found = read_csv(CSV, **OPTIONS)
            case 1:
                CSV.write_bytes(TEXT)
                found = read_csv(CSV, schema=Schema.from_json(json.loads(rest)))
            case _:
                PARQUET.write_bytes(rest)
                found = read_parquet(PARQUET, label="y", missing="zero")
    except DataError as refused:
        return named(refused, PARQUET if head == 2 else CSV)
    except (ValueError, RecursionError):
        assert head == 1, "files are refused by a DataError"  # schemas by any ValueError
        return False
    assert np.isfinite(found.X.data if sp.issparse(found.X) else found.X).all()
    if sp.issparse(found.X) and found.X.nnz:
        assert 0 <= found.X.indices.min() <= found.X.indices.max() < found.X.shape[1]
    assert len(found.y) == found.X.shape[0]
    return True
