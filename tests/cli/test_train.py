"""`symsgd train`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symsgd
from cli_cases import F, N, good, numbers, rows, run, three_labels, two_labels, write
from gpu_cases import as_cuda
from symsgd import devices, losses, penalties, schedules, strategies
from symsgd.combiners import Curvature, Projected
from symsgd.data import Schema
from symsgd.gpu.host import Host


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return two_labels(tmp_path / "two.svm")


def test_it_is_the_training_that_python_does(two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "model", "--seed", 3, "--passes", 4, "--alpha", 0.01)
    model = symsgd.load(tmp_path / "model")
    X, score = rows()
    X.data = np.array([float(f"{own:.6g}") for own in X.data])
    same = symsgd.train(
        X.astype(np.float32), np.sign(score), penalty=penalties.L2(0.01), schedule=schedules.Optimal(0.01),
        n_passes=4, seed=3,
    )  # fmt: skip
    np.testing.assert_array_equal(model.coef_, same.coef)
    assert isinstance(model, symsgd.SGDClassifier)
    assert model.classes_.tolist() == [-1, 1]
    assert model.classes_.dtype == np.int64
    assert model.schema_ == Schema("svmlight", F, options={"base": 1})


@pytest.mark.parametrize(
    ("make", "loss", "kind", "why"),
    [
        (two_labels, "log_loss", symsgd.SGDClassifier, "2 labels"),
        (three_labels, "log_loss", symsgd.SGDClassifier, "3 labels, all of them whole numbers"),
        (numbers, "squared_error", symsgd.SGDRegressor, "600 different numbers"),
    ],
)
def test_the_loss_follows_from_the_targets(make: Any, loss: str, kind: type, why: str, tmp_path: Path) -> None:
    outcome = good("train", make(tmp_path / "data"), "-o", tmp_path / "model")
    assert f"symsgd: loss: {loss} ({why}" in outcome.err
    model = symsgd.load(tmp_path / "model")
    assert type(model) is kind
    assert model.loss == loss


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--step-size", 0.5], {"learning_rate": "constant", "eta0": 0.5}),
        (["--schedule", "invscaling", "--step-size", 2, "--power", 0.1], {"eta0": 2.0, "power_t": 0.1}),
        (["--penalty", "none"], {"penalty": None}),
        (["--penalty", "elasticnet", "--l1-ratio", 0.5], {"penalty": "elasticnet", "l1_ratio": 0.5}),
        (["--no-intercept", "--average"], {"fit_intercept": False, "average": True}),
        (["--class-weight", "balanced"], {"class_weight": "balanced"}),
        (["--class-weight", "-1=2.5"], {"class_weight": {-1: 2.5}}),
        (["--strategy", "hogwild", "--threads", 2], {"strategy": "hogwild", "n_jobs": 2}),
        (["--strategy", "mr-symsgd", "--k", 3, "--block-size", 9], {"strategy": strategies.MapReduce(Projected(3), 9)}),
        (
            ["--strategy", "mr-symsgd", "--combiner", "curvature", "--block-size", "auto"],
            {"strategy": strategies.MapReduce(Curvature(), "auto")},
        ),
        (["--loss", "hinge", "--schedule", "pa1"], {"loss": "hinge", "learning_rate": "pa1"}),
        (["--shuffle", "blocks"], {"shuffle": "blocks"}),
        (["--shuffle", "none"], {"shuffle": False}),
        (["--device", "auto"], {"device": "auto"}),
    ],
)  # fmt: skip
def test_options_are_parameters(options: list[Any], parameters: dict[str, Any], two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "model", *options)
    own = symsgd.load(tmp_path / "model").get_params()
    assert {name: own[name] for name in parameters} == parameters


def test_class_weights_count(two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "plain", "--loss", "hinge")
    good("train", two, "-o", tmp_path / "weighted", "--loss", "hinge", "--class-weight", "1=50,-1=0.1")
    text = two.read_text().encode()
    ones = [good("predict", tmp_path / own, "-", given=text).out.split().count("1") for own in ("plain", "weighted")]
    assert ones[1] > ones[0]


def test_one_class(two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "model", "--loss", "one_class", "--nu", 0.1)
    model = symsgd.load(tmp_path / "model")
    assert isinstance(model, symsgd.SGDOneClassSVM)
    assert model.nu == 0.1


def test_json_says_it_all(two: Path, tmp_path: Path) -> None:
    arguments = ("train", two, "-o", tmp_path / "model", "--holdout", 0.25, "--passes", 3, "--json")
    told = json.loads(good(*arguments).out)
    assert (told["rows"], told["features"], told["loss"]) == (N, F, "log_loss")
    assert [record["rows"] for record in told["passes"]] == [N * 3 // 4] * 3
    assert told["scores"]["held-out rows"].keys() == {"AUC", "log loss", "accuracy"}
    last = told["passes"][-1]["validation_score"]
    assert last == pytest.approx(told["scores"]["held-out rows"]["accuracy"])


def test_quiet_says_nothing(two: Path, tmp_path: Path) -> None:
    outcome = good("train", two, "-o", tmp_path / "model", "--quiet")
    assert (outcome.out, outcome.err) == ("", "")


def test_verbose_lets_the_log_speak(two: Path, tmp_path: Path) -> None:
    assert f"symsgd: training {N} rows x {F} features" in good("train", two, "-o", tmp_path / "m", "--verbose").err


def test_cross_validation(tmp_path: Path) -> None:
    outcome = good("train", numbers(tmp_path / "data"), "-o", tmp_path / "model", "--cv", 3, "--step-size", 0.1)
    assert outcome.err.count("symsgd: part ") == 3
    assert "cross-validation: R² 0.9" in outcome.out
    assert symsgd.load(tmp_path / "model").result_.passes[0].rows == N  # the model itself has seen all rows


def test_early_stopping_stops(two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "model", "--early-stopping", "--step-size", 0.5)
    result = symsgd.load(tmp_path / "model").result_
    assert result.converged
    assert result.n_passes < 1000
    assert result.passes[0].rows == N * 9 // 10


def test_a_model_goes_on(two: Path, tmp_path: Path) -> None:
    settings = ("--loss", "modified_huber", "--alpha", 0.003, "--average", "--seed", 4, "--passes", 2)
    good("train", two, "-o", tmp_path / "first", *settings)
    good("train", two, "-o", tmp_path / "second", "-i", tmp_path / "first", "--seed", 5)
    first, second = symsgd.load(tmp_path / "first"), symsgd.load(tmp_path / "second")
    assert second.get_params() == first.get_params() | {"random_state": 5}
    assert second.t_ == 4 * N + 1
    X, score = rows()
    X.data = np.array([float(f"{own:.6g}") for own in X.data])
    expected = symsgd.train(
        X.astype(np.float32), np.sign(score), **first.train_options(), seed=5, init=first.as_start()
    )  # fmt: skip
    np.testing.assert_array_equal(second.coef_, expected.average_coef)


def test_the_next_file_is_read_as_the_first(two: Path, tmp_path: Path) -> None:
    """A file whose greatest feature is smaller, and one with more features than the model knows."""
    good("train", two, "-o", tmp_path / "model")
    (tmp_path / "narrow").write_text("1 1:0.5 3:1\n-1 2:1\n")
    (tmp_path / "wide").write_text(f"1 1:0.5 {F + 7}:1\n-1 2:1\n")
    good("train", tmp_path / "narrow", "-i", tmp_path / "model", "-o", tmp_path / "model")
    outcome = good("train", tmp_path / "wide", "-i", tmp_path / "model", "-o", tmp_path / "model")
    assert "ignored" in outcome.err
    assert symsgd.load(tmp_path / "model").n_features_in_ == F


def test_a_configuration_gives_what_the_line_does_not(two: Path, tmp_path: Path) -> None:
    (tmp_path / "best.toml").write_text('step-size = 0.25\npasses = 2\nloss = "hinge"\n')
    (tmp_path / "best.json").write_text('{"step_size": 0.25, "passes": 2, "loss": "hinge"}')
    for name in ("best.toml", "best.json"):
        good("train", two, "-o", tmp_path / "model", "--config", tmp_path / name, "--passes", 3)
        model = symsgd.load(tmp_path / "model")
        assert (model.eta0, model.learning_rate, model.loss, model.max_iter) == (0.25, "constant", "hinge", 3)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--loss", "hing"], 2, "'hing' is not one of"),
        (["--step-size", "0"], 2, "0.0 is not in the range x>0"),
        (["--every", 3], 2, "how often --checkpoint is written"),
        (["--k", 3], 2, "say which: --strategy"),
        (["--strategy", "mr-symsgd", "--combiner", "mean", "--k", 3], 2, "--k is no part of --combiner mean"),
        (["--strategy", "hogwild", "--block-size", 3], 2, "--block-size is no part of --strategy hogwild"),
        (["--strategy", "averaging", "--k", 3], 2, "--k is no part of --strategy averaging"),
        (["--strategy", "mr-symsgd", "--block-size", "few"], 2, "'few' is not a valid"),
        (["--loss", "huber", "--class-weight", "balanced"], 2, "--class-weight does not go with --loss huber"),
        (["--class-weight", "7=1"], 1, "'7=1'; accepted is LABEL=WEIGHT"),
        (["--class-weight", "1=heavy"], 1, "'heavy' is not a number"),
        (["--class-weight", "1=-2"], 1, "'1=-2'; a weight must be a finite number >= 0"),
        (["--power", "nan"], 1, "The 'power_t' parameter of SGDClassifier must be a float"),
        (["--alpha", 0], 1, "alpha must be > 0 since learning_rate is 'optimal'"),
        (["-o", "/dev/null"], 1, "/dev/null: it is not a regular file"),
        (["--strategy", "hogwild", "--average"], 1, "strategy='hogwild' does not work with average"),
        (["--loss", "one_class", "--holdout", 0.1], 1, "no targets to score held-out rows by"),
        (["-i", "nothing"], 1, "nothing: No such file or directory"),
        (["--cv", 10_000], 1, "--cv 10000 needs at least as many rows"),
        (["--config", "nothing"], 2, "nothing: No such file or directory"),
        (["--loss", "squared_error", "--step-size", 1e30], 1, "smaller step size"),
        (["--device", "tpu"], 2, "'tpu' is not one of"),
    ],
)
def test_mistakes_are_named(arguments: list[Any], code: int, message: str, two: Path, tmp_path: Path) -> None:
    outcome = run("train", two, "-o", tmp_path / "model", *arguments)
    assert outcome.code == code
    assert message in outcome.err
    assert outcome.out == ""
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no rows"),
        ("1 1:1\n1 2:1\n", "all rows have the label 1; it takes two to tell them apart"),
        ("1 1:1\n-1 3000000000000:1\n", "a model of 3,000,000,000,000 features needs"),
        ("1 1:1\n-1 2:nan\n", "data, line 2, column 6: 'nan'"),
    ],
)
def test_bad_rows_are_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text(content)
    outcome = run("train", tmp_path / "data", "-o", tmp_path / "model")
    assert outcome.code == 1
    assert message in outcome.error


def test_where_the_model_goes_is_checked_before_the_training(two: Path, tmp_path: Path) -> None:
    reasons = {
        tmp_path: "it is a folder; give the name of a file",
        tmp_path / "no" / "model": "its folder does not exist",
    }
    for path, reason in reasons.items():
        outcome = run("train", two, "-o", path)
        assert (outcome.code, outcome.err) == (1, f"symsgd: error: {path}: {reason}\n")


def test_a_bug_is_called_one(two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("broken")

    monkeypatch.setattr("symsgd.cli.train.open_source", broken)
    outcome = run("train", two, "-o", tmp_path / "model")
    assert outcome.code == 1
    assert outcome.error == "symsgd: error: internal error, KeyError: 'broken' (--debug shows where)"


def test_a_tolerance_of_zero_is_one(two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "model", "--early-stopping", "--tol", 0, "--passes", 2, "-q")
    assert symsgd.load(tmp_path / "model").tol == 0


def test_a_configuration_with_a_mistake_is_named(two: Path, tmp_path: Path) -> None:
    for content, message in {"stepsize = 1": "has 'stepsize', which is no option", "a = = b": "neither TOML"}.items():
        (tmp_path / "best.toml").write_text(content)
        outcome = run("train", two, "-o", tmp_path / "model", "--config", tmp_path / "best.toml")
        assert outcome.code == 2
        assert message in " ".join(outcome.err.split())


def test_a_model_of_another_kind_cannot_go_on(two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "model")
    outcome = run("train", two, "-o", tmp_path / "other", "-i", tmp_path / "model", "--loss", "huber")
    assert outcome.code == 2
    assert "--loss huber cannot continue a model of the kind SGDClassifier" in outcome.err
    symsgd.save(symsgd.train(np.eye(2), [0, 1]), tmp_path / "result")
    assert "holds a Result" in run("train", two, "-o", tmp_path / "other", "-i", tmp_path / "result").error


def test_numbers_are_not_taken_for_labels(tmp_path: Path) -> None:
    outcome = run("train", numbers(tmp_path / "data"), "-o", tmp_path / "model", "--loss", "hinge")
    assert outcome.code == 1
    assert "--loss hinge predicts labels, but the targets are 600 different numbers" in outcome.error


def test_a_model_goes_on_only_with_labels_and_features_that_it_knows(two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "model", "-q")
    np.savez(tmp_path / "wide.npz", X=np.ones((4, F + 1)), y=[1, -1, 1, -1])
    np.savez(tmp_path / "names.npz", X=np.ones((4, F)), y=["yes", "no", "no", "yes"])
    (tmp_path / "zeros").write_text("1 1:1\n0 2:1\n")
    for name, message in {
        "wide.npz": f"wide.npz has {F + 1} features, and the model {F}",
        "names.npz": "the model tells -1, 1 apart, but the data has labels as 'yes'",
        "zeros": "row 2 has the label 0.0; the model tells -1, 1 apart",
    }.items():
        outcome = run("train", tmp_path / name, "-i", tmp_path / "model", "-o", tmp_path / "more")
        assert outcome.code == 1
        assert message in outcome.error
    assert not (tmp_path / "more").exists()


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    outcome = run("train", tmp_path / "nothing", "-o", tmp_path / "model", "--debug")
    assert outcome.code == 1
    assert "Traceback" in outcome.err
    assert outcome.error.startswith("symsgd: error: ")


def test_a_training_that_was_cut_goes_on_from_its_checkpoint(two: Path, tmp_path: Path) -> None:
    kept = ("--checkpoint", tmp_path / "checkpoint", "--every", 2)
    good("train", two, "-o", tmp_path / "half", "--passes", 4, *kept)
    outcome = good("train", two, "-o", tmp_path / "resumed", "--passes", 6, *kept, "--json")
    assert "pass 5/6" in outcome.err
    assert "pass 4/6" not in outcome.err
    assert len(json.loads(outcome.out)["passes"]) == 6
    good("train", two, "-o", tmp_path / "whole", "--passes", 6)
    resumed, whole = (symsgd.load(tmp_path / own) for own in ("resumed", "whole"))
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    refused = run("train", two, "-o", tmp_path / "other", "--passes", 6, *kept, "--alpha", 0.5)
    assert refused.code == 1
    assert "another training" in refused.error


def test_every_choice_of_python_is_one_here(two: Path, tmp_path: Path) -> None:
    for loss in losses.LOSSES:
        good("train", two, "-o", tmp_path / "model", "--loss", loss, "--passes", 1, "-q")
    for strategy in set(strategies.STRATEGIES) - {"sliced", "directions"}:
        good("train", two, "-o", tmp_path / "model", "--strategy", strategy, "--threads", 2, "--step-size", 0.1, "-q")
    X, score = rows()
    np.savez(tmp_path / "dense.npz", X=X.toarray(), y=np.sign(score))
    for strategy in ("sliced", "directions"):
        good("train", tmp_path / "dense.npz", "-o", tmp_path / "model", "--strategy", strategy, "--threads", 2, "-q")


def test_labels_that_count_from_zero(tmp_path: Path) -> None:
    X, score = rows()
    outcome = good("train", write(tmp_path / "data", X, score > 0), "-o", tmp_path / "model")
    assert "2 labels" in outcome.err
    assert symsgd.load(tmp_path / "model").classes_.tolist() == [0, 1]


def test_a_gpu_trains_what_the_cpu_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, score = rows()
    np.savez(tmp_path / "data.npz", X=X.toarray(), y=np.sign(score))
    arguments = ("train", tmp_path / "data.npz", "--strategy", "sequential", "--passes", 2)
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "")
    with as_cuda(Host()):
        told = json.loads(good(*arguments, "-o", tmp_path / "gpu", "--device", "cuda", "--json").out)
    good(*arguments, "-o", tmp_path / "cpu")
    assert told["strategy"] == "sequential on NumPy: as asked"
    found, wanted = (symsgd.load(tmp_path / own) for own in ("gpu", "cpu"))
    assert (found.device, wanted.device) == ("cuda", "cpu")
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-9, atol=1e-10)


def test_no_gpu_is_said_before_anything_is_trained(two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is the initial model, or a configuration, that asks for one."""
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "CUDA sees no device")
    good("train", two, "-o", tmp_path / "first")
    model = symsgd.load(tmp_path / "first").set_params(device="cuda")
    model.save(tmp_path / "first")
    (tmp_path / "cuda.toml").write_text('device = "cuda"\n')
    for asked in (["--device", "cuda"], ["-i", tmp_path / "first"], ["--config", tmp_path / "cuda.toml"]):
        outcome = run("train", two, "-o", tmp_path / "model", *asked)
        assert outcome.code == 2
        assert "--device cuda needs a GPU and CuPy: CUDA sees no device" in outcome.err
        assert not (tmp_path / "model").exists()
    good("train", two, "-o", tmp_path / "model", "-i", tmp_path / "first", "--device", "cpu")
    good("predict", tmp_path / "first", two)
    good("train", two, "-o", tmp_path / "model", "--device", "auto")
