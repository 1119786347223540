"""quick runs the other protocols' plans of its size, with the choices that were made and no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from symsgd.bench import protocols
from symsgd.bench.protocols.base import Plan, Protocol, Surroundings
from symsgd.bench.protocols.quick import CHAIN, Quick
from symsgd.bench.records import Row


class Fake(Protocol):
    """Says what it was asked for."""

    summary = "nothing"
    plans = {size: Plan(("own",), (7,), 3, {size: 1.0}) for size in ("full", "reduced", "quick", "tiny")}  # type: ignore[misc]  # noqa: RUF012

    def __init__(self, name: str) -> None:
        self.called = name

    def measure(self, plan: Any, around: Surroundings) -> Iterator[Row]:
        settings = {"sets": plan.sets, "threads": plan.threads, "repeats": plan.repeats, "scales": dict(plan.scales)}
        yield Row(self.called, "", "", "", seed=around.seed, settings=settings)


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "find", Fake)


def test_it_chains_all_other_protocols() -> None:
    assert set(CHAIN) == set(protocols.PROTOCOLS) - {"quick"}
    rows = list(Quick().measure(Quick.plans["quick"], Surroundings(seed=5)))
    assert [row.protocol for row in rows] == list(CHAIN)
    assert all(row.seed == 5 for row in rows)


def test_plans_stay_as_they_are_where_nothing_is_chosen() -> None:
    for size in ("quick", "tiny"):
        row = next(iter(Quick().measure(Quick.plans[size], Surroundings())))
        assert row.settings == {"sets": ("own",), "threads": (7,), "repeats": 3, "scales": {size: 1.0}}


def test_choices_are_passed_on() -> None:
    plan = Quick.plans["tiny"].with_choices(sets=("a",), threads=(1, 2), repeats=9)
    row = next(iter(Quick().measure(replace(plan), Surroundings())))
    assert row.settings == {"sets": ("a",), "threads": (1, 2), "repeats": 9, "scales": {"tiny": 1.0}}
