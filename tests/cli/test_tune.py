"""`symsgd tune` and `symsgd spectrum`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symsgd
from cli_cases import good, numbers, run, three_labels, two_labels
from symsgd.cli.search import Timed, around, fastest


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return two_labels(tmp_path / "two.svm")


def test_what_it_finds_trains(two: Path, tmp_path: Path) -> None:
    outcome = good("tune", two, "-o", tmp_path / "best.toml", "--json", "--passes", 4)
    told = json.loads(outcome.out)
    losses = [own["loss"] for own in told["tried"] if own["passes"] == 4]
    assert losses == sorted(losses)
    assert len(told["tried"]) == 45  # nine step sizes and five penalties
    assert [sum(own["passes"] >= n for own in told["tried"]) for n in (1, 2, 4)] == [45, 15, 5]
    best = told["best"]
    assert {"step_size": best["step_size"], "alpha": best["alpha"]}.items() <= told["tried"][0].items()

    good("train", two, "-o", tmp_path / "model", "--config", tmp_path / "best.toml", "-q")
    model = symsgd.load(tmp_path / "model")
    assert (model.eta0, model.alpha, model.learning_rate) == (best["step_size"], best["alpha"], "constant")
    assert model.max_iter == best["passes"] == 4


def test_the_same_seed_finds_the_same(two: Path, tmp_path: Path) -> None:
    found = [
        good("tune", two, "-o", tmp_path / "best.json", "--passes", 3, "--seed", 2, "--json", "-q").out
        for _ in range(2)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("make", [three_labels, numbers])
def test_other_targets(make: Any, tmp_path: Path) -> None:
    arguments = ("tune", make(tmp_path / "data"), "-o", tmp_path / "best.toml", "--passes", 2)
    outcome = good(*arguments, "--step-sizes", "0.01,0.1", "--alphas", "1e-5", "--plot", tmp_path / "plot.svg")
    assert "best: loss " in outcome.out
    assert "</svg>" in (tmp_path / "plot.svg").read_text()


def test_schedules_without_a_step_and_models_without_a_penalty(two: Path, tmp_path: Path) -> None:
    good("tune", two, "-o", tmp_path / "a.toml", "--schedule", "optimal", "--passes", 1, "--plot", tmp_path / "a.svg")
    assert "step-size" not in (tmp_path / "a.toml").read_text()
    good("tune", two, "-o", tmp_path / "b.toml", "--penalty", "none", "--passes", 1, "--plot", tmp_path / "b.svg")
    assert "alpha" not in (tmp_path / "b.toml").read_text()
    good("train", two, "-o", tmp_path / "model", "--config", tmp_path / "b.toml", "-q")
    assert symsgd.load(tmp_path / "model").penalty is None


def test_the_papers_parameters(two: Path, tmp_path: Path) -> None:
    choice = ("--step-sizes", "0.1", "--alphas", "1e-5", "--passes", 2, "--threads", 2)
    told = json.loads(good("tune", two, "-o", tmp_path / "best.json", "--paper", *choice, "--json").out)
    tried = {(own["block_size"], own["k"]) for own in told["blocks"]}
    assert tried == {(block, k) for block in (64, 128, 256, 512) for k in (7, 15, 31)}
    good("train", two, "-o", tmp_path / "model", "--config", tmp_path / "best.json", "-q")
    strategy = symsgd.load(tmp_path / "model").strategy
    assert (strategy.name, strategy.block_size) == ("mr-symsgd", told["best"]["block_size"])
    assert strategy.combiner.k == told["best"]["k"]


def test_a_device_is_for_the_training_to_come(two: Path, tmp_path: Path) -> None:
    """A search tries many small trainings, each on a core."""
    choice = ("--step-sizes", "0.1", "--alphas", "1e-5", "--passes", 1, "--device", "cuda")
    good("tune", two, "-o", tmp_path / "best.toml", *choice, "-q")
    assert 'device = "cuda"' in (tmp_path / "best.toml").read_text()


def test_the_fastest_of_the_good_ones() -> None:
    timed = [Timed(64, 7, 0.5, 1.0), Timed(128, 7, 0.504, 0.5), Timed(256, 7, 0.6, 0.1), Timed(512, 7, math.inf, 0.1)]
    assert fastest(timed) == timed[1]


def test_numbers_around_another() -> None:
    np.testing.assert_allclose(around(0.1, 2, 10), [0.001, 0.01, 0.1, 1, 10])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--step-sizes", "a"], 2, "'a' is not a list of numbers"),
        (["--step-sizes", "0,1"], 2, "not above 0"),
        (["--schedule", "optimal", "--step-sizes", "1"], 2, "--step-sizes do not go with --schedule optimal"),
        (["--penalty", "none", "--alphas", "1"], 2, "--penalty none has none"),
        (["--loss", "one_class"], 2, "no targets to judge by"),
        (["--alpha", "1"], 2, "--alpha is no option of a search: --alphas are tried"),
        (["--step-size", "1"], 2, "--step-size is no option of a search: --step-sizes are tried"),
        (["--tol", "1"], 2, "--tol is no option of a search"),
        (["--plot", "nowhere/plot.png"], 1, "nowhere/plot.png: its folder does not exist"),
        (["--paper", "--strategy", "hogwild"], 2, "--paper is for --strategy mr-symsgd and async-symsgd"),
        (["--loss", "squared_error", "--step-sizes", "1e30"], 1, "every training diverged"),
    ],
)
def test_mistakes_are_named(arguments: list[str], code: int, message: str, two: Path, tmp_path: Path) -> None:
    outcome = run("tune", two, "-o", tmp_path / "best.toml", *arguments)
    assert outcome.code == code
    assert message in " ".join(outcome.err.split())
    assert not (tmp_path / "best.toml").exists()


def test_spectrum_is_that_of_the_analysis(two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "model", "-q")
    arguments = ("--model", tmp_path / "model", "--block-sizes", "16,64", "--step-size", 0.3, "--alpha", 0.01)
    told = json.loads(good("spectrum", two, *arguments, "--json").out)
    model, data = symsgd.load(tmp_path / "model"), symsgd.data.read_svmlight(two)
    expected = symsgd.analysis.singular_values(
        data.X, data.y, model.coef_[0], block_sizes=[16, 64], loss="log_loss", step_size=0.3,
        penalty=symsgd.penalties.L2(0.01), intercept=float(model.intercept_[0]),
    )  # fmt: skip
    for own, other in zip(told, expected, strict=True):
        assert own["block_size"] == other.block_size
        np.testing.assert_allclose(own["N"], other.N, atol=1e-12)
        np.testing.assert_allclose(own["M"], other.M, atol=1e-12)


@pytest.mark.parametrize("make", [two_labels, numbers])
def test_spectrum_for_people(make: Any, tmp_path: Path) -> None:
    outcome = good("spectrum", make(tmp_path / "data"), "--plot", tmp_path / "plot.svg")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert [line[0] for line in lines if line and line[0].isdigit()] == ["64", "128", "256", "512"]
    assert "</svg>" in (tmp_path / "plot.svg").read_text()


@pytest.mark.parametrize(
    ("sizes", "code", "message"),
    [
        ("0.5", 2, "'0.5' is not a list of numbers, as 64,256"),
        ("0", 2, "not above 0"),
        ("64,601", 1, "data has 600 rows; say --block-sizes, none larger than that"),
    ],
)
def test_block_sizes_that_there_cannot_be(sizes: str, code: int, message: str, tmp_path: Path) -> None:
    outcome = run("spectrum", two_labels(tmp_path / "data"), "--block-sizes", sizes)
    assert outcome.code == code
    assert message in " ".join(outcome.err.split())


def test_spectrum_of_three_labels_is_refused(tmp_path: Path) -> None:
    outcome = run("spectrum", three_labels(tmp_path / "data"))
    assert outcome.code == 1
    assert "3 labels; a combiner is that of two, or of numbers" in outcome.error
