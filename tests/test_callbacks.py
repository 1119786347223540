"""Callbacks are told of every pass, may stop the training, and are told how it ended."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from rich.console import Console

from symsgd import (
    DivergenceError,
    EarlyStopping,
    History,
    PassRecord,
    Perceptron,
    Result,
    SGDClassifier,
    SGDOneClassSVM,
    SGDRegressor,
    schedules,
    train,
)
from symsgd.callbacks import Callback, ProgressBar

N, F = 60, 4
ESTIMATORS = [SGDClassifier, Perceptron, SGDRegressor, SGDOneClassSVM]


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).standard_normal((N, F))
    return X, np.where(X @ [1.0, -2.0, 0.5, 0.0] > 0, 1, 0)


class Diary(Callback):
    """Writes down every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_start(self, n_passes: int, n_rows: int) -> None:
        self.calls.append(("start", n_passes, n_rows))

    def on_pass(self, record: PassRecord) -> None:
        self.calls.append(("pass", record))

    def on_end(self, result: Result | None) -> None:
        self.calls.append(("end", result))

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


# Records


def test_a_record_of_every_pass() -> None:
    X, y = data()
    told: list[PassRecord] = []
    result = train(X, y, n_passes=4, callbacks=told.append)
    assert told == result.passes
    assert [record.number for record in told] == [1, 2, 3, 4]
    assert [record.rows for record in told] == [N] * 4
    assert all(record.seconds >= 0 and np.isfinite(record.loss) for record in told)
    assert all(record.objective is None and record.validation_score is None for record in told)


def test_objectives_where_a_tolerance_asks_for_them() -> None:
    X, y = data()
    records = train(X, y, n_passes=3, tol=0.0).passes
    assert all(record.objective > record.loss for record in records)


def test_held_out_rows_are_not_counted() -> None:
    X, y = data()
    records = train(X, y, n_passes=2, tol=0.0, early_stopping=EarlyStopping(np.arange(N) % 3 == 0)).passes
    assert [record.rows for record in records] == [40, 40]
    assert all(record.objective is None for record in records)


def test_the_first_loss_of_all_is_that_of_a_zero_model() -> None:
    X, _ = data()
    (record,) = train(X[:1], [1.0], loss="squared_error", n_passes=1).passes
    assert record.loss == 0.5


# Callbacks of every kind


@pytest.mark.parametrize("form", [lambda c: c, lambda c: [c], lambda c: (c,), lambda c: iter([c])])
def test_callbacks_come_alone_or_together(form: Any) -> None:
    X, y = data()
    diary, told = Diary(), []
    result = train(X, y, n_passes=2, callbacks=form(diary))
    assert diary.calls == [("start", 2, N), ("pass", result.passes[0]), ("pass", result.passes[1]), ("end", result)]
    train(X, y, n_passes=2, callbacks=form(told.append))
    assert len(told) == 2


def test_several_callbacks_are_called_in_turn() -> None:
    X, y = data()
    calls: list[str] = []
    train(X, y, n_passes=2, callbacks=[lambda r: calls.append(f"a{r.number}"), lambda r: calls.append(f"b{r.number}")])
    assert calls == ["a1", "b1", "a2", "b2"]


def test_an_empty_callback_does_nothing() -> None:
    X, y = data()
    assert_array_equal(train(X, y, callbacks=Callback()).coef, train(X, y).coef)


# History


def test_history() -> None:
    X, y = data()
    history = History()
    result = train(X, y, n_passes=3, callbacks=history, eval_set=(X, y))
    assert history.records == result.passes
    assert history.losses == [record.loss for record in result.passes]
    assert history.validation_scores == [record.validation_score for record in result.passes]
    train(X, y, n_passes=2, callbacks=history)  # starts afresh
    assert len(history.records) == 2
    assert history.validation_scores == [None, None]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_call_back(estimator: Any) -> None:
    X, y = data()
    history = History()
    model = estimator(max_iter=4, tol=None, callbacks=[history]).fit(X, y)
    assert history.records == model.result_.passes
    assert model.n_iter_ == len(history.records) == 4
    model.partial_fit(X, y)
    assert len(history.records) == 1


# Stopping


@pytest.mark.parametrize("answer", [True, np.True_, 1])
def test_a_callback_may_stop_the_training(answer: Any) -> None:
    X, y = data()
    result = train(X, y, n_passes=50, callbacks=lambda record: answer if record.number == 3 else None)
    assert result.n_passes == 3
    assert not result.converged
    assert_array_equal(result.coef, train(X, y, n_passes=3).coef)


def test_all_callbacks_hear_of_the_last_pass() -> None:
    X, y = data()
    diary = Diary()
    result = train(X, y, n_passes=50, callbacks=[lambda record: True, diary])
    assert diary.names == ["start", "pass", "end"]
    assert diary.calls[-1] == ("end", result)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_callback_may_stop_a_fit(estimator: Any) -> None:
    X, y = data()
    stop_at_2 = {"callbacks": lambda record: record.number == 2}
    model = estimator(max_iter=50, tol=None, random_state=0, **stop_at_2).fit(X, y)
    assert model.n_iter_ == 2
    assert_array_equal(model.coef_, estimator(max_iter=2, tol=None, random_state=0).fit(X, y).coef_)


# Scores of validation rows


def test_validation_accuracy() -> None:
    X, y = data()
    held_X, held_y = data(seed=1)
    result = train(X, y, n_passes=3, eval_set=(held_X, held_y))
    accuracy = np.mean((result.decision(held_X) > 0) == held_y)
    assert result.passes[-1].validation_score == accuracy
    assert 0.5 < accuracy <= 1.0
    after_one = train(X, y, n_passes=1)
    assert result.passes[0].validation_score == np.mean((after_one.decision(held_X) > 0) == held_y)


def test_validation_accuracy_of_several_classes_with_names() -> None:
    X, _ = data()
    y = np.array(["one", "three", "two"])[np.argmax(X[:, :3], axis=1)]
    result = train(X, y, n_passes=5, eval_set=(X, y))
    predicted = result.classes[result.decision(X).argmax(1)]
    assert result.passes[-1].validation_score == np.mean(predicted == y) > 0.6


def test_validation_r2() -> None:
    X, _ = data()
    y = X @ [1.0, -2.0, 0.5, 0.0] + 3
    model = SGDRegressor(max_iter=20, tol=None, random_state=0).fit(X, y, eval_set=(X, y))
    assert model.result_.passes[-1].validation_score == pytest.approx(model.score(X, y), rel=1e-12)
    assert model.result_.passes[-1].validation_score > model.result_.passes[0].validation_score


def test_the_validated_model_is_the_one_that_predicts() -> None:
    """With averaging that is the mean of the iterates."""
    X, y = data()
    model = SGDClassifier(max_iter=3, tol=None, random_state=0, average=True).fit(X, y, eval_set=(X, y))
    assert model.result_.passes[-1].validation_score == model.score(X, y)


def test_validation_does_not_change_the_model() -> None:
    X, y = data()
    assert_array_equal(train(X, y, eval_set=(X, y)).coef, train(X, y).coef)


# How it ended


def failing(record: PassRecord) -> None:
    raise RuntimeError("no more")


def test_told_none_if_a_callback_raises() -> None:
    X, y = data()
    diary = Diary()
    with pytest.raises(RuntimeError, match="no more"):
        train(X, y, callbacks=[diary, failing])
    assert diary.names == ["start", "pass", "end"]
    assert diary.calls[-1] == ("end", None)


def test_told_none_if_the_training_diverges() -> None:
    """Every step adds 10³⁸ on the way to 3.3 × 10³⁸; the fourth is more than float32 has room for."""
    X, y = np.ones((1, 1), np.float32), [3.3e38]
    diary, steps = Diary(), {"schedule": schedules.Constant(1e38), "penalty": None, "fit_intercept": False}
    with pytest.raises(DivergenceError):
        train(X, y, loss="epsilon_insensitive", n_passes=50, callbacks=diary, **steps)
    assert diary.names == ["start", "pass", "pass", "pass", "end"]
    assert diary.calls[-1] == ("end", None)


def test_those_that_started_are_told_if_another_cannot_start() -> None:
    class Unwilling(Callback):
        def on_start(self, n_passes: int, n_rows: int) -> None:
            raise RuntimeError("not today")

    X, y = data()
    before, after = Diary(), Diary()
    with pytest.raises(RuntimeError, match="not today"):
        train(X, y, callbacks=[before, Unwilling(), after])
    assert before.calls == [("start", 10, N), ("end", None)]
    assert after.calls == []


def test_bad_input_is_found_before_anything_starts() -> None:
    X, y = data()
    diary = Diary()
    with pytest.raises(ValueError, match="seed"):
        train(X, y, seed=-1, callbacks=diary)
    assert diary.calls == []


# The progress bar


def shown(*, terminal: bool, **more: Any) -> str:
    X, y = data()
    out = StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, color_system=None)
    train(X, y, n_passes=3, callbacks=ProgressBar(console), **more)
    return out.getvalue()


def test_one_line_a_pass_where_there_is_no_terminal() -> None:
    strategy, *lines = shown(terminal=False).splitlines()
    assert strategy.startswith("sequential: ")
    assert len(lines) == 3
    for number, line in enumerate(lines, 1):
        assert re.fullmatch(rf"pass {number}/3  loss \d\.\d{{5}}  [\d.e+]+ [kMG]?\s?rows/s", line), line


def test_the_validation_score_is_shown() -> None:
    assert re.search(r"validation [01]\.\d{4}$", shown(terminal=False, eval_set=data()).splitlines()[-1])


def test_a_bar_on_a_terminal() -> None:
    text = shown(terminal=True)
    assert "passes" in text
    assert "3/3" in text
    assert "rows/s" in text


def test_the_bar_ends_with_the_training_that_fails() -> None:
    """Otherwise the terminal's cursor would stay hidden."""
    X, y = data()
    out = StringIO()
    bar = ProgressBar(Console(file=out, force_terminal=True, width=120))
    with pytest.raises(RuntimeError, match="no more"):
        train(X, y, callbacks=[bar, failing])
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().rindex("\x1b[?25l")


def test_verbose_estimators_show_their_progress(capsys: Any) -> None:
    X, y = data()
    SGDClassifier(max_iter=2, tol=None, verbose=1).fit(X, y)
    printed = capsys.readouterr().out
    assert printed.startswith("sequential: ")
    assert "pass 1/2" in printed
    assert "pass 2/2" in printed
    SGDClassifier(max_iter=2, tol=None).fit(X, y)
    assert capsys.readouterr().out == ""


def test_a_progress_bar_may_be_used_again() -> None:
    X, y = data()
    out = StringIO()
    bar = ProgressBar(Console(file=out, force_terminal=False, width=120))
    for _ in range(2):
        train(X, y, n_passes=2, callbacks=bar)
    assert len(out.getvalue().splitlines()) == 6
