"""`symsgd.load`: an input is a model's description, or a whole file; both get a checksum that fits."""

from __future__ import annotations

import numpy as np

import symsgd
import symsgd.models.disk
from fuzz.forms import FOLDER, archive, members, sealed
from model_cases import MODELS, RESULTS
from symsgd.archives import DIGITS, MODEL

PATH = FOLDER / "model"


def _saved() -> list[bytes]:
    files = []
    for make in (MODELS["text labels"], MODELS["sparsified"], MODELS["a random state"], next(iter(RESULTS.values()))):
        symsgd.save(make(), PATH)
        files.append(PATH.read_bytes())
    return files


FILES = _saved()
PARTS = []
for _file in FILES:
    PATH.write_bytes(_file)
    PARTS.append(members(PATH))
SEEDS = [bytes([at]) + own["model.json"] for at, own in enumerate(PARTS)]
SEEDS += [b"\xff" + own[: -DIGITS - len(MODEL.seal)] for own in FILES]


def attempt(data: bytes) -> bool:
    """Whether it was taken for good."""
    head, rest = data[0] if data else 255, bytes(data[1:])
    if head == 255:
        PATH.write_bytes(sealed(MODEL, rest))
    else:
        PATH.write_bytes(archive(MODEL, PARTS[head % len(PARTS)] | {"model.json": rest}))
    try:
        model = symsgd.load(PATH)
    except symsgd.ModelError:
        return False
    coef = model.coef if isinstance(model, symsgd.Result) else model.coef_
    np.asarray(coef.sum() if hasattr(coef, "sum") else coef)  # all of it is there
    return True
