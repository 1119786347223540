"""Checkpoints: an input is the description of a training, or a whole file; both get a checksum that fits.

The state of the core is left as it is: it is a piece of memory, for the program that wrote it (docs/checkpoints.md).
"""

from __future__ import annotations

import numpy as np

import symsgd
import symsgd.checkpoints
from fuzz.forms import FOLDER, archive, members, sealed
from symsgd.archives import CHECKPOINT, DIGITS

PATH = FOLDER / "checkpoint"
X = np.random.default_rng(0).standard_normal((30, 3))
Y = np.arange(30) % 3
CHOICES = {"strategy": "sequential", "n_threads": 1, "n_passes": 4, "tol": 1e-9, "patience": 2, "average": True}


def _saved() -> bytes:
    PATH.unlink(missing_ok=True)
    symsgd.train(X, Y, **CHOICES | {"n_passes": 2}, checkpoint=PATH)
    return PATH.read_bytes()


FILE = _saved()
PARTS = members(PATH)
EXPECTED = symsgd.train(X, Y, **CHOICES)
SEEDS = [b"\0" + PARTS["checkpoint.json"], b"\1" + FILE, b"\2" + FILE[: -DIGITS - len(CHECKPOINT.seal)]]


def attempt(data: bytes) -> bool:
    """Whether it was taken for good."""
    head, rest = data[0] % 3 if data else 1, bytes(data[1:])
    match head:
        case 0:
            PATH.write_bytes(archive(CHECKPOINT, PARTS | {"checkpoint.json": rest}))
        case 1:
            PATH.write_bytes(rest)
        case 2:
            if PARTS["state.npy"] not in rest:
                return False
            PATH.write_bytes(sealed(CHECKPOINT, rest))
    try:
        result = symsgd.train(X, Y, **CHOICES, checkpoint=PATH)
    except symsgd.CheckpointError:
        return False
    assert np.isfinite(result.coef).all()
    if head == 1:  # nobody made the checksum fit
        np.testing.assert_array_equal(result.coef, EXPECTED.coef)
    return True
