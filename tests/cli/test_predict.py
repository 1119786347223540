"""`symsgd predict`, `evaluate` and `inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import log_loss, r2_score, roc_auc_score

import symsgd
from cli_cases import F, N, Outcome, good, numbers, rows, run, three_labels, two_labels

MAKE = {"two": two_labels, "three": three_labels, "numbers": numbers}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    for name, make in MAKE.items():
        make(folder / f"{name}.svm")
        make(folder / f"{name}.test", seed=1)
        good("train", folder / f"{name}.svm", "-o", folder / name, "-q")
    good("train", folder / "two.svm", "-o", folder / "hinge", "-q", "--loss", "hinge")
    good("train", folder / "two.svm", "-o", folder / "outliers", "-q", "--loss", "one_class")
    return folder


def documents(outcome: Outcome) -> list[dict[str, Any]]:
    return [json.loads(line) for line in outcome.out.splitlines()]


def loaded(work: Path, name: str) -> tuple[Any, Any, Any]:
    """The model, and the rows and targets of its test file."""
    X, y = load_svmlight_file(str(work / f"{name}.test"), n_features=F, zero_based=False, dtype=np.float32)
    return symsgd.load(work / name), X, y


@pytest.mark.parametrize(
    ("name", "what", "method"),
    [
        ("two", None, "predict"),
        ("two", "label", "predict"),
        ("two", "score", "decision_function"),
        ("two", "probability", "predict_proba"),
        ("three", None, "predict"),
        ("three", "score", "decision_function"),
        ("three", "probability", "predict_proba"),
        ("numbers", None, "predict"),
    ],
)
def test_predictions_are_those_of_the_model(name: str, what: str | None, method: str, work: Path) -> None:
    model, X, _ = loaded(work, name)
    options = [] if what is None else ["--what", what]
    outcome = good("predict", work / name, work / f"{name}.test", *options)
    printed = [line.split("\t") for line in outcome.out.splitlines()]
    expected = getattr(model, method)(X)
    if name == "two" and what == "probability":
        expected = expected[:, 1]
    assert printed == [list(map(str, np.atleast_1d(row).tolist())) for row in expected]


def test_json_has_all_by_name(work: Path) -> None:
    model, X, _ = loaded(work, "three")
    lines = [
        json.loads(line) for line in good("predict", work / "three", work / "three.test", "--json").out.splitlines()
    ]
    assert [line["label"] for line in lines] == model.predict(X).tolist()
    assert [list(line["probability"].values()) for line in lines] == model.predict_proba(X).tolist()
    assert list(lines[0]["probability"]) == ["0", "1", "2"]
    assert json.loads(
        good("predict", work / "numbers", work / "numbers.test", "--json").out.splitlines()[0]
    ).keys() == {"prediction"}


def test_to_a_file_and_from_standard_input(work: Path, tmp_path: Path) -> None:
    text = (work / "two.test").read_bytes()
    outcome = good("predict", work / "two", "-", "-o", tmp_path / "labels", given=text)
    assert outcome.out == ""
    assert f"{N} rows predicted" in outcome.err
    assert (tmp_path / "labels").read_text() == good("predict", work / "two", work / "two.test").out


def test_rows_without_the_first_or_with_unknown_features_do_not_shift(work: Path) -> None:
    model = symsgd.load(work / "two")
    given = f"0 5:1\n0 {F + 3}:1\n0\n"
    outcome = good("predict", work / "two", "-", "--what", "score", given=given)
    X = np.zeros((3, F), np.float32)
    X[0, 4] = 1
    assert [float(own) for own in outcome.out.split()] == model.decision_function(X).tolist()
    assert "1 values of features beyond the" in outcome.err


def test_outliers(work: Path) -> None:
    assert set(good("predict", work / "outliers", work / "two.test").out.split()) == {"1", "-1"}


def test_a_failed_prediction_leaves_no_file(work: Path, tmp_path: Path) -> None:
    outcome = run("predict", work / "two", "-", "-o", tmp_path / "labels", given="1 1:x\n")
    assert outcome.code == 1
    assert list(tmp_path.iterdir()) == []


def test_scores_are_scikit_learns(work: Path) -> None:
    model, X, y = loaded(work, "two")
    found = json.loads(good("evaluate", work / "two", work / "two.test", "--json").out)
    assert found["scores"] == {
        "AUC": pytest.approx(roc_auc_score(y, model.decision_function(X))),
        "log loss": pytest.approx(log_loss(y, model.predict_proba(X))),
        "accuracy": pytest.approx(model.score(X, y)),
    }
    bins = found["calibration"]
    assert sum(own["rows"] for own in bins) == N
    assert sum(own["rows"] * own["observed"] for own in bins) == pytest.approx((y == 1).sum())
    assert [own["predicted"] for own in bins] == sorted(own["predicted"] for own in bins)

    model, X, y = loaded(work, "three")
    found = json.loads(good("evaluate", work / "three", work / "three.test", "--json").out)["scores"]
    assert found["log loss"] == pytest.approx(log_loss(y, model.predict_proba(X)))
    assert found["accuracy"] == pytest.approx(model.score(X, y))
    assert found["AUC"] == pytest.approx(roc_auc_score(y, model.predict_proba(X), multi_class="ovr"))

    model, X, y = loaded(work, "numbers")
    found = json.loads(good("evaluate", work / "numbers", work / "numbers.test", "--json").out)["scores"]
    assert found["R²"] == pytest.approx(r2_score(y, model.predict(X)))
    assert found["RMSE"] == pytest.approx(np.sqrt(np.mean((y - model.predict(X)) ** 2)))


def test_weights_count_in_all_scores(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    X, score = rows()
    weight = np.random.default_rng(1).integers(0, 3, N)
    lines = [
        f"{int(s > 0)},{own[0]:.6g},{own[1]:.6g},{w}" for s, own, w in zip(score, X.toarray(), weight, strict=True)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["y,a,b,w", *lines]) + "\n")
    good("train", tmp_path / "rows.csv", "-o", tmp_path / "model", "--label", "y", "--weight", "w", "-q")
    found = json.loads(good("evaluate", tmp_path / "model", tmp_path / "rows.csv", "--json").out)
    model, y = symsgd.load(tmp_path / "model"), score > 0
    features = np.array([line.split(",")[1:3] for line in lines], np.float32)
    probability = model.predict_proba(features)[:, 1]
    assert found["scores"]["log loss"] == pytest.approx(log_loss(y, probability, sample_weight=weight))
    assert found["scores"]["AUC"] == pytest.approx(roc_auc_score(y, probability, sample_weight=weight))
    first = np.argsort(probability, kind="stable")[: N // 10]
    assert found["calibration"][0] == {
        "rows": N // 10,
        "predicted": pytest.approx(np.average(probability[first], weights=weight[first])),
        "observed": pytest.approx(np.average(y[first], weights=weight[first])),
    }


def test_scores_for_people(work: Path) -> None:
    outcome = good("evaluate", work / "two", work / "two.test")
    assert "Calibration for the label 1" in outcome.out
    assert "AUC" in outcome.out
    assert "log loss" not in good("evaluate", work / "hinge", work / "two.test").out


@pytest.mark.parametrize("name", MAKE)
def test_plots(name: str, work: Path, tmp_path: Path) -> None:
    good("evaluate", work / name, work / f"{name}.test", "--plot", tmp_path / "plot.svg")
    assert "</svg>" in (tmp_path / "plot.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "hinge", "two.test", "--what", "probability"], "hinge has no probabilities: its loss is hinge"),
        (["predict", "numbers", "numbers.test", "--what", "label"], "predicts numbers"),
        (["predict", "two.svm", "two.test"], "two.svm is not a symsgd model"),
        (["predict", "two", "nothing"], "nothing: No such file or directory"),
        (["evaluate", "two", "three.test"], "has the label 0.0; the model tells -1, 1 apart"),
        (["evaluate", "outliers", "two.test"], "finds outliers"),
        (["evaluate", "two", "two.test", "--plot", "plot.xyz"], "the name must end with one of"),
        (["evaluate", "two", "two.test", "--plot", "nowhere/plot.png"], "nowhere/plot.png: its folder does not exist"),
        (["predict", "two", "two.test", "-o", "nowhere/labels"], "nowhere/labels: its folder does not exist"),
        (["inspect", "nothing"], "nothing: No such file or directory"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    outcome = run(*arguments)
    assert outcome.code == 1
    assert message in outcome.error
    assert outcome.out == ""


def test_a_damaged_model_is_refused(work: Path, tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes((work / "two").read_bytes()[:-100])
    for command in (["predict", tmp_path / "cut", work / "two.test"], ["inspect", tmp_path / "cut"]):
        outcome = run(*command)
        assert outcome.code == 1
        assert "cut short" in outcome.error


def test_a_model_that_does_not_know_its_data_wants_the_right_width(work: Path, tmp_path: Path) -> None:
    symsgd.SGDRegressor().fit(np.eye(3), [1.0, 2.0, 3.0]).save(tmp_path / "plain")
    assert len(good("predict", tmp_path / "plain", "-", given="0 3:1\n").out.split()) == 1
    outcome = run("predict", tmp_path / "plain", "-", given="0 4:1\n")
    assert outcome.code == 1
    assert "has 4 features, and the model 3" in outcome.error


def test_inspecting_a_model(work: Path) -> None:
    model = symsgd.load(work / "two")
    outcome = good("inspect", work / "two", "-n", 3)
    order = np.argsort(-abs(model.coef_[0]))[:3] + 1  # the file counts from 1
    shown = [line.split()[0] for line in outcome.out.splitlines() if line.split() and line.split()[0].isdigit()]
    assert shown == list(map(str, order))
    assert "classes: -1, 1" in outcome.out
    assert f"and {np.count_nonzero(model.coef_) - 3} smaller weights" in outcome.out
    told = json.loads(good("inspect", work / "three", "--json").out)
    assert told["classes"] == [0, 1, 2]
    assert (told["features"], told["steps"], len(told["passes"])) == (F, 10 * N, 10)
    assert len(told["weights"]["1"]) == 3


def test_inspecting_rows(work: Path) -> None:
    X, _ = rows()
    told = json.loads(good("inspect", work / "two.svm", "--json").out)
    assert (told["rows"], told["features"], told["nonzeros"]) == (N, F, X.nnz)
    assert sum(told["labels"].values()) == N
    assert 0 < told["NFNZ"] <= 1
    assert "targets" in json.loads(good("inspect", work / "numbers.svm", "--json").out)
    assert f"{N}" in good("inspect", work / "two.svm").out
