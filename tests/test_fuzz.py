"""The fuzz targets of Python: a little of what `make fuzz` does, and what it has found."""

from __future__ import annotations

import io
import json
import random
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fuzz import forms
from fuzz.__main__ import TARGETS, changed
from symsgd import archives
from symsgd.data import Schema
from symsgd.errors import CheckpointError, DataError, ModelError


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_are_accepted_and_what_becomes_of_them_is_read_or_refused(target: str) -> None:
    module = import_module(f"fuzz.{target}")
    assert all(module.attempt(seed) for seed in module.SEEDS)
    rng = random.Random(0)
    taken = [module.attempt(changed(module, rng)) for _ in range(150)]
    assert not all(taken)


def test_a_sparse_matrix_of_a_format_that_is_no_text() -> None:
    from fuzz import matrices

    for kind in (np.array(b"\xff\xff\xff"), np.array(7), np.array(["csr", "csr"])):
        matrix, out = sp.eye(3, format="csr"), io.BytesIO()
        parts = {name: getattr(matrix, name) for name in ("indptr", "indices", "data")}
        np.savez(out, format=kind, shape=np.array([3, 3]), **parts)
        assert not matrices.attempt(b"\0" + out.getvalue())
    with pytest.raises(DataError, match="is a sparse matrix of format"):
        matrices.read_matrix(matrices.PATHS[0])


def test_names_of_columns_that_are_not_utf8() -> None:
    from fuzz import tables

    assert not tables.attempt(b"\0y,x\xff\n1,2\n")
    with pytest.raises(DataError, match="the names of its columns are not UTF-8"):
        tables.read_csv(tables.CSV)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mis$sing", "zero"),
        ("missing", "perhaps"),
        ("hash_bits", 63),
        ("hash_bits", None),
        ("numeric", [7]),
        ("numeric", ["x", "x"]),
        ("categories", 3),
        ("categories", [[9, "red"]]),
        ("categories", [[0, "red"], [0, "red"]]),
        ("label", ["y"]),
    ],
)
def test_a_schema_that_no_table_has(key: str, value: object) -> None:
    from fuzz import tables

    fields = json.loads(tables.SEEDS[-1][1:])
    fields["options"][key] = value
    assert not tables.attempt(b"\1" + json.dumps(fields).encode())
    with pytest.raises(ValueError, match="schema= is not made as that of a table is"):
        tables.read_csv(tables.CSV, schema=Schema.from_json(fields))


@pytest.mark.parametrize("fields", [2, [], {"format": "table"}, {"n_features": -1}, {"n_features": True}])
def test_what_is_no_schema(fields: object) -> None:
    if isinstance(fields, dict) and "n_features" in fields:
        fields = Schema("svmlight", 3).to_json() | fields
    with pytest.raises(ValueError, match="a schema"):
        Schema.from_json(fields)  # type: ignore[arg-type]


def test_a_checkpoint_with_a_number_that_is_none() -> None:
    from fuzz import checkpoints

    for value in ("soon", "0x1p+9999", None, [], True):
        document = json.loads(checkpoints.PARTS["checkpoint.json"])
        document["passes"][0]["seconds"] = value
        assert not checkpoints.attempt(b"\0" + json.dumps(document).encode())
    with pytest.raises(CheckpointError, match="is not made as a symsgd checkpoint is"):
        checkpoints.symsgd.train(checkpoints.X, checkpoints.Y, **checkpoints.CHOICES, checkpoint=checkpoints.PATH)


def test_a_model_whose_parts_begin_before_the_file_does() -> None:
    """The directory of the archive lies elsewhere than its end says, and with it all offsets."""
    from fuzz import models

    whole = models.FILES[0][: -archives.DIGITS - len(archives.MODEL.seal)]
    begins = int.from_bytes(whole[-6:-2], "little")  # the offset of the directory
    moved = whole[:-6] + (begins + 1000).to_bytes(4, "little") + whole[-2:]
    assert not models.attempt(b"\xff" + moved)
    with pytest.raises(ModelError, match="is not made as a symsgd model is"):
        models.symsgd.load(models.PATH)


@pytest.mark.parametrize("change", [{"attributes": {"coef_": [1.0, [2.0]]}}, {"attributes": {"n_features_in_": 2}}])
def test_a_model_whose_weights_are_none(change: dict[str, dict[str, Any]]) -> None:
    from fuzz import models

    document = json.loads(models.PARTS[0]["model.json"])
    for key, values in change.items():
        document[key] |= values
    assert not models.attempt(b"\0" + json.dumps(document).encode())
    with pytest.raises(ModelError, match="coef is not an array of numbers of shape"):
        models.symsgd.load(models.PATH)


def test_a_checkpoint_of_another_shape() -> None:
    from fuzz import checkpoints

    out = io.BytesIO()
    np.save(out, np.zeros((3, 4)))
    parts = checkpoints.PARTS | {"coef.npy": out.getvalue()}
    checkpoints.PATH.write_bytes(forms.archive(archives.CHECKPOINT, parts))
    with pytest.raises(CheckpointError, match=r"coef has shape \(3, 4\)"):
        checkpoints.symsgd.train(checkpoints.X, checkpoints.Y, **checkpoints.CHOICES, checkpoint=checkpoints.PATH)


def test_a_parquet_file_whose_names_are_no_text() -> None:
    from fuzz import tables

    whole = tables.SEEDS[2]
    at = [place for place in range(len(whole)) if whole.startswith(b"\x01x", place)]
    assert any(not tables.attempt(whole[: place + 1] + b"\xe3" + whole[place + 2 :]) for place in at)
