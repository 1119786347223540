"""The form for people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from model_cases import MODELS, RESULTS, F
from symsgd.data import Schema
from symsgd.models import to_text


def weights(text: str) -> dict[str, list[float]]:
    """The table at the end, read back."""
    lines = text.split("\n\n")[1].splitlines()[1:]
    rows = [line.split("\t") for line in lines if "\t" in line]
    return {name.strip(): [float(own) for own in values] for name, *values in rows}


@pytest.mark.parametrize("model", [*MODELS.items(), *RESULTS.items()], ids=lambda own: own[0])
def test_weights_read_back_as_they_are_largest_first(model: Any) -> None:
    model = model[1]()
    text = to_text(model)
    coef = getattr(model, "coef_", None) if hasattr(model, "coef_") else model.average_coef
    coef = model.coef if coef is None else coef
    coef = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)
    read = weights(text)
    read.pop("(intercept)")
    assert read == {str(i): coef[:, i].tolist() for i in range(F) if coef[:, i].any()}
    sizes = [max(map(abs, own)) for own in read.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_the_head_says_what_it_is_and_how_it_was_trained() -> None:
    head = to_text(MODELS["text labels"]()).split("\n\n")[0]
    lines = dict(line.split(": ", 1) for line in head.splitlines())
    assert lines["model"] == "SGDClassifier"
    assert lines["classes"] == "no, perhaps, yes"
    assert "loss='modified_huber'" in lines["parameters"]
    assert lines["strategy"].startswith("sequential")
    assert lines["steps"] == "183"
    assert lines["passes"].startswith("3 in ")


def test_columns_of_several_classes_are_named() -> None:
    assert "feature    \tno\tperhaps\tyes\n" in to_text(MODELS["text labels"]())


def test_the_largest_alone() -> None:
    model = MODELS["two classes"]()
    text = to_text(model, largest=2)
    assert list(weights(text)) == ["(intercept)", *map(str, np.argsort(-abs(model.coef_[0]))[:2])]
    assert text.endswith(f"(and {F - 2} smaller ones)\n")


def test_names_come_from_the_data_or_from_the_schema() -> None:
    model = MODELS["regressor"]()
    first = int(np.argmax(abs(model.coef_)))
    model.schema_ = Schema("svmlight", F, options={"base": 1})
    assert list(weights(to_text(model)))[1] == str(first + 1)
    model.schema_ = Schema("csv", F, tuple("abcdefghi"))
    assert list(weights(to_text(model)))[1] == "abcdefghi"[first]
    model.feature_names_in_ = np.array([f"own {i}" for i in range(F)], object)
    assert list(weights(to_text(model)))[1] == f"own {first}"
