"""`import symsgd` gives everything, and loads it when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import symsgd


def test_every_public_name_is_there() -> None:
    for name in symsgd.__all__:
        assert getattr(symsgd, name) is not None
        assert name in dir(symsgd)
    assert symsgd.__version__
    assert sorted(symsgd.__all__) == sorted([*symsgd._MODULES, *symsgd._HOME])


def test_a_star_imports_what_is_public() -> None:
    names: dict[str, object] = {}
    exec("from symsgd import *", names)
    assert set(symsgd.__all__) <= names.keys()


def test_other_names_are_missing() -> None:
    with pytest.raises(AttributeError, match="module 'symsgd' has no attribute 'trian'"):
        _ = symsgd.trian  # type: ignore[attr-defined]


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, symsgd, symsgd.cli\n"
        "assert not {'numpy', 'scipy', 'sklearn', 'joblib', 'rich'} & sys.modules.keys()\n"
        "symsgd.SGDClassifier\n"
        "assert 'sklearn' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
