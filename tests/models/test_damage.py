"""A file that is not a whole model of a version we know is refused, with the reason, by one type of error."""

from __future__ import annotations

import io
import json
import pickle
import random
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import symsgd
from model_cases import MODELS, RESULTS, rows
from symsgd import archives
from symsgd.archives import MODEL


@pytest.fixture(scope="module", params=["text labels", "sparsified", "a random state"])
def good(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model"
    MODELS[request.param]().save(path)
    return path


def sealed(members: dict[str, bytes], path: Path, compression: int = zipfile.ZIP_STORED) -> Path:
    """A file with these members and the right checksum, as anybody can make it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as own:
        for name, data in members.items():
            own.writestr(name, data)
        own.comment = MODEL.seal + b"0" * archives.DIGITS
    data = content.getvalue()[: -archives.DIGITS]
    path.write_bytes(data + xxhash.xxh3_64(data).hexdigest().encode())
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as own:
        return {name: own.read(name) for name in own.namelist()}


def npy(array: Any, **options: Any) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asarray(array), **options)
    return content.getvalue()


def test_every_truncation_is_refused(good: Path, tmp_path: Path) -> None:
    data = good.read_bytes()
    lengths = {*range(60), *range(len(data) - 60, len(data)), *random.Random(0).sample(range(len(data)), 100)}
    for length in lengths:
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises(symsgd.ModelError, match=r"is empty|is not a symsgd model|cut short|is damaged"):
            symsgd.load(tmp_path / "cut")


CHANGES = st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=3)  # places and bits


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES, longer=st.binary(max_size=3))
def test_every_flip_is_refused(good: Path, tmp_path: Path, changes: list[tuple[int, int]], longer: bytes) -> None:
    data = bytearray(good.read_bytes())
    for at, flip in changes:
        data[at % len(data)] ^= flip
    data += longer
    if data == good.read_bytes():
        return
    (tmp_path / "flipped").write_bytes(data)
    with pytest.raises(symsgd.ModelError) as caught:
        symsgd.load(tmp_path / "flipped")
    assert caught.value.path == str(tmp_path / "flipped")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_what_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "other").write_bytes(data)
    with pytest.raises(symsgd.ModelError):
        symsgd.load(tmp_path / "other")


ODD = [{"$array": ["coef_", [-1]]}, {"$numpy": ["O", 1]}, {"$float": "x"}, {"$choice": ["losses", "x", {}]}]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
JSON_VALUES = st.recursive(
    LEAVES | st.sampled_from(ODD),
    lambda own: (
        st.lists(own, max_size=3)
        | st.dictionaries(st.sampled_from(["$map", "$tuple", "name", "$strings"]), own, max_size=2)
    ),
    max_leaves=5,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) within a document."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(value, key), *places(value[key])]]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(0), value=JSON_VALUES, remove=st.booleans())
def test_a_sealed_file_of_nonsense_is_refused_or_a_model(
    good: Path, tmp_path: Path, where: int, value: Any, remove: bool
) -> None:
    parts = members(good)
    document = json.loads(parts[MODEL.document])
    container, key = (found := places(document))[where % len(found)]
    if remove:
        del container[key]
    else:
        container[key] = value
    path = sealed(parts | {MODEL.document: json.dumps(document).encode()}, tmp_path / "forged")
    with suppress(symsgd.ModelError):
        assert isinstance(symsgd.load(path), symsgd.SGDClassifier)


def with_coef(content: bytes) -> Callable[..., Any]:
    return lambda parts, document: parts.update({"coef_.npy": content})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda parts, document: document.update(version=2, symsgd="9.1"),
            r"symsgd 9\.1 in version 2 .*reads up to",
        ),
        (lambda parts, document: document.update(kind="Ridge"), "of the kind 'Ridge'; known are SGDClassifier"),
        (lambda parts, document: document.update(format="other"), "is not a symsgd model"),
        (lambda parts, document: document["attributes"].update(__class__="x"), "__class__ is no attribute"),
        (lambda parts, document: document["parameters"].update(gamma=1), "gamma"),
        (lambda parts, document: parts.pop("coef_.npy"), "KeyError: 'coef_'"),
        (with_coef(npy(np.array([{}], object))), "has the type object"),
        (with_coef(npy(np.zeros(3, "i4,f8"))), "has the type"),
        (with_coef(npy(np.zeros(3))[:-1]), "bytes, which does not fit its shape"),
        (with_coef(npy(np.zeros(3), version=(2, 0))), "another version of numpy"),
        (
            with_coef(npy(np.zeros(1)).replace(b"(1,), }" + 15 * b" ", b"(1" + 15 * b"0" + b",), }")),
            "not fit its shape",
        ),
        (with_coef(b""), "not made as a symsgd model"),
    ],
)
def test_forgeries_are_refused_with_the_reason(change: Callable[..., Any], message: str, tmp_path: Path) -> None:
    MODELS["two classes"]().save(tmp_path / "model")
    parts = members(tmp_path / "model")
    document = json.loads(parts[MODEL.document])
    change(parts, document)
    path = sealed(parts | {MODEL.document: json.dumps(document).encode()}, tmp_path / "forged")
    with pytest.raises(symsgd.ModelError, match=message):
        symsgd.load(path)


class Trap:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    MODELS["two classes"]().save(tmp_path / "model")
    trap = npy(np.array([Trap(tmp_path / "sprung")], object), allow_pickle=True)
    np.lib.format.read_array(io.BytesIO(trap), allow_pickle=True)
    (tmp_path / "sprung").unlink()  # it does what it says
    for name in ("coef_.npy", "more.npy"):
        with pytest.raises(symsgd.ModelError):
            symsgd.load(sealed(members(tmp_path / "model") | {name: trap}, tmp_path / "forged"))
    (tmp_path / "pickled").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(symsgd.ModelError, match="is not a symsgd model"):
        symsgd.load(tmp_path / "pickled")
    assert not (tmp_path / "sprung").exists()


def test_compressed_members_are_refused(tmp_path: Path) -> None:
    """A small file must not become a large one."""
    MODELS["two classes"]().save(tmp_path / "model")
    parts = members(tmp_path / "model") | {"coef_.npy": npy(np.zeros(10**6))}
    path = sealed(parts, tmp_path / "bomb", zipfile.ZIP_DEFLATED)
    with pytest.raises(symsgd.ModelError, match="is compressed"):
        symsgd.load(path)


def test_the_rebuilt_file_of_these_tests_is_one_that_loads(good: Path, tmp_path: Path) -> None:
    loaded = symsgd.load(sealed(members(good), tmp_path / "rebuilt"))
    np.testing.assert_array_equal(loaded.decision_function(rows()), symsgd.load(good).decision_function(rows()))


def test_a_result_with_a_damaged_record_is_refused(tmp_path: Path) -> None:
    symsgd.save(RESULTS["numbers"](), tmp_path / "model")
    parts = members(tmp_path / "model")
    document = json.loads(parts[MODEL.document])
    document["result"]["passes"][0]["colour"] = "red"
    path = sealed(parts | {MODEL.document: json.dumps(document).encode()}, tmp_path / "forged")
    with pytest.raises(symsgd.ModelError, match="colour"):
        symsgd.load(path)
