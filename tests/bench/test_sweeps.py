"""Sweeps of step sizes and configurations: what is tried, and what is chosen."""

import numpy as np
import pytest

from symsgd.bench.datasets import Dataset
from symsgd.bench.protocols import sweeps
from symsgd.bench.protocols.sweeps import Steps, Trained, best_of, choose, reason_against, sweep_step_sizes, train
from symsgd.bench.systems.base import Model, Task
from symsgd.strategies import AllReduce, Sequential


def small(task="binary", scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((120, 4))
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * rng.standard_normal(120) > 0, 1, -1)
    return Dataset("small", X[:80], y[:80], X[80:], y[80:], task)


def trained(auc, seconds=1.0):
    return Trained(Model(np.ones(3)), seconds, auc)


def test_steps_are_round_numbers_from_decade_to_decade():
    assert [Steps(-2, 0)[number] for number in Steps(-2, 0).numbers] == [0.01, 0.03, 0.1, 0.3, 1.0]
    fine = Steps(-1, 0, (1, 2, 5))
    assert [fine[number] for number in fine.numbers] == [0.1, 0.2, 0.5, 1.0]
    assert fine[fine.numbers[-1] + 1] == 2.0
    assert fine[fine.numbers[0] - 1] == 0.05


def swept(monkeypatch, score, **choices):
    """The step sizes tried, where ``score`` says what AUC one has and None that it diverges."""
    monkeypatch.setattr(
        sweeps,
        "train",
        lambda task, strategy, step_size, n_passes: (
            Trained(reason="diverges") if score(step_size) is None else trained(score(step_size))
        ),
    )
    return [step_size for step_size, _ in sweep_step_sizes(Task(small()), Sequential(), Steps(-1, 0), 1, **choices)]


def test_a_sweep_with_its_best_within_ends_where_it_was_planned_to(monkeypatch):
    assert swept(monkeypatch, lambda step: 1 - abs(step - 0.3)) == [0.1, 0.3, 1.0]


def test_a_sweep_goes_on_until_the_best_is_within(monkeypatch):
    assert swept(monkeypatch, lambda step: 1 - abs(step - 10) / 100) == [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
    assert swept(monkeypatch, lambda step: 1 - abs(step - 0.03)) == [0.1, 0.3, 1.0, 0.03, 0.01]
    assert swept(monkeypatch, lambda step: None if step > 0.02 else 1 - step) == [
        0.1, 0.3, 1.0, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001,
    ]  # fmt: skip


def test_a_sweep_does_not_go_on_for_ever(monkeypatch):
    assert swept(monkeypatch, lambda step: step, most_beyond=2) == [0.1, 0.3, 1.0, 3.0, 10.0]
    assert len(swept(monkeypatch, lambda step: None, most_beyond=3)) == 6


def test_the_best_is_the_smallest_of_equals_and_never_one_that_failed():
    assert best_of({0.1: trained(0.7), 0.3: trained(0.9), 1.0: trained(0.9), 3.0: Trained(reason="diverges")}) == 0.3
    assert best_of({0.1: Trained(reason="diverges")}) is None


def test_the_fastest_that_holds_is_chosen():
    tried = [("fast, off", trained(0.9002, 1)), ("slow", trained(0.90005, 3)), ("holds", trained(0.89995, 2))]
    assert choose([*tried, ("failed", Trained(reason="diverges"))], trained(0.9)) == "holds"


def test_where_none_holds_the_nearest_is_chosen_and_none_where_all_fail():
    assert choose([("off", trained(0.88, 1)), ("near", trained(0.9003, 9))], trained(0.9)) == "near"
    assert choose([("failed", Trained(reason="diverges"))], trained(0.9)) is None


def test_a_training_says_how_far_it_is_from_another():
    sequential, other = Trained(Model(np.array([3.0, 4.0])), 1.0, 0.9), Trained(Model(np.array([3.0, 3.0])), 2.0, 0.8)
    measures = other.measures(sequential)
    assert measures["distance"] == pytest.approx(0.2)
    assert measures["difference"] == pytest.approx(-0.1)
    assert measures["holds"] == 0
    assert sequential.measures(sequential)["holds"] == 1
    assert Trained(reason="diverges").measures(sequential) == {}


def test_training_ends_with_a_model_that_ranks():
    found = train(Task(small(), alpha=0.0), Sequential(), 0.1, 5)
    assert found.reason == ""
    assert found.auc > 0.9
    assert found.alone is None


def test_what_diverges_or_is_refused_is_a_reason():
    assert "diverges" in train(Task(small(scale=1e160), "squared_error", alpha=0.0), Sequential(), 1.0, 5).reason
    assert "one-class" in train(Task(small(), "one_class", alpha=0.0), AllReduce(), 0.1, 1).reason


def test_only_two_classes_have_an_auc():
    assert reason_against(small()) == ""
    assert "regression" in reason_against(small("regression"))
    data = small()
    assert "one class" in reason_against(Dataset("one", data.X, data.y, data.X_test, np.ones(40)))
