"""The schedule that falls to 0 on a line, and the step that it begins with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from cli_cases import run as program
from symsgd import EarlyStopping, SGDClassifier, SGDRegressor, losses, penalties, reference, schedules, train
from symsgd.bench.newton import Objective, least
from symsgd.data import twin
from symsgd.losses import LOSSES
from symsgd.schedules import Constant, Linear
from symsgd.strategies import Hogwild

ALPHA = 1e-5


@pytest.fixture(scope="module")
def news() -> Any:
    return twin("rcv1", 0.01)


def rows(n: int = 300, f: int = 8) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, f))
    return X, (X @ rng.standard_normal(f) > 0).astype(int)


def first_step(X: Any, y: Any, loss: str = "log_loss", **choices: Any) -> float:
    """What "auto" is: from how far one step goes whose prediction is 0."""
    case: dict[str, Any] = {"loss": loss, "n_passes": 1, "shuffle": False, "strategy": "sequential", "penalty": None}
    case |= {"fit_intercept": False, **choices}
    found = train(X, y, schedule="linear", **case)
    for step in np.geomspace(1e-4, 1e3, 141):
        same = train(X, y, schedule=Linear(step), **case)
        if same.coef[0] @ same.coef[0] >= found.coef[0] @ found.coef[0]:
            return float(step)
    raise AssertionError("no such step")


@pytest.mark.parametrize("n_threads", [1, 3])
def test_one_schedule_gets_near_the_best_objective(news: Any, n_threads: int) -> None:
    """Without a search: 1 % of the best within 20 passes. A step that stays as large as the first does not."""
    y = np.where(news.y > 0, 1.0, -1.0)
    objective = Objective(news.X, y, ALPHA)
    best = least(objective).value
    case = {"penalty": penalties.L2(ALPHA), "fit_intercept": False, "n_passes": 20, "n_threads": n_threads}
    found = train(news.X, y, schedule="linear", **case)
    assert objective.value(found.coef[0]) < 1.01 * best
    assert objective.value(train(news.X, y, schedule=Constant(4.0), **case).coef[0]) > 1.02 * best


def test_the_step_follows_rows_and_weights() -> None:
    """Rows twice as long or four times as heavy have steps a quarter as large, whose effect is the same."""
    X, y = rows()
    case: dict[str, Any] = {
        "schedule": "linear", "penalty": None, "fit_intercept": False, "n_passes": 3, "strategy": "sequential"
    }  # fmt: skip
    plain = train(X, y, **case)
    for layout in (np.asarray, sp.csr_matrix):
        np.testing.assert_allclose(2 * train(layout(2 * X), y, **case).coef, plain.coef, rtol=1e-9)
    heavy = train(X, y, sample_weight=np.full(len(y), 4.0), **case)
    np.testing.assert_allclose(heavy.coef, plain.coef, rtol=1e-9)
    heavy = train(X, y, class_weight=[4.0, 4.0], **case)
    np.testing.assert_allclose(heavy.coef, plain.coef, rtol=1e-9)


@pytest.mark.parametrize(("loss", "wanted"), [("log_loss", 4.0), ("squared_hinge", 0.5), ("hinge", 1.0)])
def test_the_step_of_unit_rows(loss: str, wanted: float) -> None:
    X, y = rows(40)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert first_step(X, y, loss) == pytest.approx(wanted, rel=0.13)  # the next of the grid


def test_heavy_rows_count_for_more() -> None:
    """Nine rows of length 1 and one of length 10: not the mean square, 10.9, but near the largest, 91.7 = 10009/109."""
    X, y = np.eye(10), np.tile([0, 1], 5)
    X[9, 9] = 10.0
    assert first_step(X, y) == pytest.approx(4 / (10_009 / 109), rel=0.13)


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"one_class"}))
def test_most_curvature_is_the_most_there_is(name: str) -> None:
    loss = LOSSES[name]()
    p = np.linspace(-5, 5, 4001)
    found = max(float(np.max(reference.curvature(loss, p, y))) for y in (-1.0, 1.0))
    if loss.smooth:
        assert found == pytest.approx(loss.most_curvature, rel=1e-3)
    else:
        assert found == 0.0


def test_least_squares_does_not_diverge_on_heavy_tails() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 20)) * rng.standard_t(3, (4000, 1))
    y = X @ rng.standard_normal(20) + rng.standard_normal(4000)
    found = train(X, y, loss="squared_error", schedule="linear", n_passes=10, penalty=None)
    exact = np.linalg.lstsq(np.c_[X, np.ones(len(y))], y, rcond=None)[0]
    assert np.linalg.norm(found.coef[0] - exact[:-1]) < 0.05 * np.linalg.norm(exact)


def test_rows_without_features() -> None:
    found = train(sp.csr_matrix((4, 3)), [0, 1, 0, 1], schedule="linear", n_passes=2, fit_intercept=False)
    assert not found.coef.any()


def test_the_line_is_over_the_passes_of_the_call() -> None:
    X, y = rows()
    case: dict[str, Any] = {"loss": losses.LogLoss(), "penalty": None, "strategy": "sequential", "shuffle": False}
    for init in (None, train(X, y, schedule=Constant(0.1), n_passes=2, **case)):
        first = 1.0 if init is None else init.t
        wanted = train(X, y, schedule=Linear(0.3, n_steps=4 * len(y), first=first), n_passes=4, init=init, **case)
        found = train(X, y, schedule=Linear(0.3), n_passes=4, init=init, **case)
        np.testing.assert_array_equal(found.coef, wanted.coef)


def test_held_out_rows_are_no_steps() -> None:
    X, y = rows()
    out = np.arange(len(y)) % 3 == 0
    wanted = train(X[~out], y[~out], schedule=Linear(0.3), n_passes=4, strategy="sequential", shuffle=False)
    found = train(
        X, y, schedule=Linear(0.3), n_passes=4, strategy="sequential", shuffle=False, early_stopping=EarlyStopping(out)
    )
    np.testing.assert_allclose(found.coef, wanted.coef, rtol=1e-12)


def test_steps_that_are_said_go_on_across_calls() -> None:
    X, y = rows()
    case: dict[str, Any] = {"schedule": Linear(0.3, n_steps=6 * len(y)), "strategy": "sequential", "shuffle": False}
    whole = train(X, y, n_passes=6, **case)
    result = None
    for _ in range(3):
        result = train(X, y, n_passes=2, init=result, **case)
    assert result is not None
    np.testing.assert_allclose(result.coef, whole.coef, rtol=1e-12)
    still = train(X, y, n_passes=1, init=result, **(case | {"penalty": None}))
    np.testing.assert_array_equal(still.coef, result.coef)  # it has come down: nothing moves


def test_it_races_too(news: Any) -> None:
    model = train(news.X, news.y, schedule="linear", n_passes=4, n_threads=3, strategy=Hogwild())
    assert np.mean((model.decision(news.X_test) > 0) == (news.y_test > 0)) > 0.85


def test_estimators(news: Any) -> None:
    own: dict[str, Any] = {"learning_rate": "linear", "eta0": "auto", "max_iter": 8, "tol": None, "random_state": 0}
    model = SGDClassifier(loss="log_loss", alpha=ALPHA, **own).fit(news.X, news.y)
    assert model.score(news.X_test, news.y_test) > 0.86
    X, y = rows()
    assert SGDRegressor(**own).fit(X, X.sum(axis=1)).score(X, X.sum(axis=1)) > 0.999
    with pytest.raises(ValueError, match=r"tol=0.001 does not go with schedule='linear'.*Use tol=None"):
        SGDClassifier(learning_rate="linear", eta0="auto").fit(X, y)
    with pytest.raises(ValueError, match="eta0='auto' goes with learning_rate='linear' only, not with 'constant'"):
        SGDClassifier(learning_rate="constant", eta0="auto").fit(X, y)


def test_tol_goes_with_steps_that_are_said() -> None:
    X, y = rows()
    stopped = train(X, y, schedule=Linear(0.3, n_steps=50 * len(y)), n_passes=50, tol=1e3, patience=1)
    assert stopped.n_passes < 50


def test_bad_step() -> None:
    with pytest.raises(ValueError, match="step_size='small' is not accepted; it must be 'auto' or a number > 0"):
        schedules.Linear("small")  # type: ignore[arg-type]


def test_program(tmp_path: Any) -> None:
    X, y = rows()
    data = tmp_path / "rows.svm"
    dump_svmlight_file(X, y, str(data), zero_based=False)
    for options in (["--schedule", "linear"], ["--step-size", "auto"], ["--schedule", "linear", "--step-size", "0.5"]):
        outcome = program("train", data, "-o", tmp_path / "model", *options)
        assert outcome.code == 0, outcome.err
    outcome = program("tune", data, "-o", tmp_path / "best.toml", "--schedule", "linear", "--alphas", "1e-5,1e-2")
    assert outcome.code == 0, outcome.err
    assert 'schedule = "linear"' in (tmp_path / "best.toml").read_text()
    outcome = program("train", data, "-o", tmp_path / "model", "--step-size", "small")
    assert outcome.code == 2
    assert "small" in outcome.err
