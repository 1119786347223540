"""Files of NumPy and SciPy."""

from __future__ import annotations

import io

import numpy as np
import scipy.sparse as sp

from fuzz.forms import FOLDER, named
from symsgd.data.matrices import read_matrix
from symsgd.errors import DataError

MOST = 1 << 24  # features that rows may have here: a damaged width may be any
PATHS = (FOLDER / "rows.npz", FOLDER / "rows.npy")


def _files() -> list[bytes]:
    made = []
    for at, save in (
        (0, lambda out: np.savez(out, X=np.eye(3), y=np.arange(3), sample_weight=np.ones(3))),
        (0, lambda out: np.savez_compressed(out, X=np.eye(3, dtype=np.float32), y=np.array(["a", "b", "a"]))),
        (0, lambda out: sp.save_npz(out, sp.eye(3, format="csr"), compressed=False)),
        (0, lambda out: sp.save_npz(out, sp.eye(3, format="csr"), compressed=True)),
        (1, lambda out: np.save(out, np.eye(3))),
        (1, lambda out: np.save(out, np.asfortranarray(np.ones((2, 3), np.int16)))),
    ):
        out = io.BytesIO()
        save(out)
        made.append(bytes([at]) + out.getvalue())
    return made


SEEDS = _files()


def attempt(data: bytes) -> bool:
    """Whether it was taken for good."""
    path = PATHS[data[0] % 2 if data else 0]
    path.write_bytes(bytes(data[1:]))
    try:
        found = read_matrix(path)
    except DataError as refused:
        return named(refused, path)
    values = found.X.data if sp.issparse(found.X) else found.X
    assert np.isfinite(values).all()
    if sp.issparse(found.X):
        found.X.check_format(full_check=True)
    if found.X.shape[1] < MOST:
        found.X @ np.ones(found.X.shape[1], found.X.dtype)
    return True
