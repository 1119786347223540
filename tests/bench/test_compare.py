"""What two runs are said to differ by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from report_cases import ENVIRONMENT, records, row_of, rows_with_noise, run_named
from symsgd.bench.compare import Change, compare, previous, summary
from symsgd.bench.records import Record, Row

BEFORE, AFTER = run_named("a"), run_named("b", "2026-02-02T10:00:00+00:00")


def changes(before: list[Row], after: list[Row]) -> list[Change]:
    return compare(records(BEFORE, before), records(AFTER, after))


@pytest.mark.parametrize("noise", [0.005, 0.03, 0.1])
@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_noise_is_not_reported(noise: float, repeats: int) -> None:
    false_alarms = [
        seed
        for seed in range(20)
        if changes(rows_with_noise(2 * seed, noise, repeats), rows_with_noise(2 * seed + 1, noise, repeats))
    ]
    assert len(false_alarms) <= 1, f"of 20 pairs of equal runs {len(false_alarms)} were said to differ"


@pytest.mark.parametrize(("noise", "repeats"), [(0.005, 1), (0.03, 3), (0.05, 5)])
def test_a_slow_down_is_reported_and_nothing_else(noise: float, repeats: int) -> None:
    def slower(own: Row) -> float:
        return 1.5 if own.system == "auto" and own.threads == 8 else 1.0

    found = changes(rows_with_noise(1, noise, repeats), rows_with_noise(2, noise, repeats, slower))
    assert len(found) == 4, "one a data set"
    for change in found:
        assert (change.kind, change.measure, change.better) == ("measure", "seconds", False)
        assert "auto, 8 threads" in change.what
        assert "times slower" in change.in_words


def test_a_slow_machine_is_one_change_and_taken_out() -> None:
    def slower(own: Row) -> float:
        return 1.2 * (1.6 if own.system == "averaging" and own.data == "url twin" else 1.0)

    found = changes(rows_with_noise(1, 0.02), rows_with_noise(2, 0.02, factor=slower))
    assert found[0].kind == "drift"
    assert found[0].after == pytest.approx(1.2, rel=0.02)
    assert "1.2" in found[0].in_words
    assert len(found) == 1 + 4
    assert all("1.6" in own.in_words or "1.5" in own.in_words for own in found[1:]), "less the drift"


def test_a_faster_one_is_better() -> None:
    found = changes([row_of(seconds=2.0)], [row_of(seconds=1.0)])
    assert [own.better for own in found] == [True]
    assert "2.00 times faster" in found[0].in_words


def test_a_few_times_measured_once_are_compared_with_caution() -> None:
    assert changes([row_of(seconds=1.0)], [row_of(seconds=1.2)]) == []
    (found,) = changes([row_of(seconds=1.0)], [row_of(seconds=1.4)])
    assert "measured once" in found.in_words


def test_rates_are_better_when_higher() -> None:
    found = changes([row_of(rows_per_second=1e6)], [row_of(rows_per_second=2e6)])
    assert [own.better for own in found] == [True]


@pytest.mark.parametrize(("measure", "better"), [("auc", False), ("distance", True), ("nonzeros", None)])
def test_numbers_that_do_not_scatter_are_held_to_their_digits(measure: str, better: bool | None) -> None:
    assert changes([row_of(**{measure: 0.9})], [row_of(**{measure: 0.9 * (1 - 1e-7)})]) == []
    found = changes([row_of(**{measure: 0.9})], [row_of(**{measure: 0.8995})])
    assert [own.better for own in found] == [better]
    assert "lower" in found[0].in_words


def test_numbers_are_held_against_their_own_scatter() -> None:
    before = [row_of(repeat=at, auc=value) for at, value in enumerate((0.950, 0.952, 0.951))]
    after = [row_of(repeat=at, auc=value) for at, value in enumerate((0.9512, 0.9493, 0.9522))]
    assert changes(before, after) == []
    lower = [row_of(repeat=at, auc=value) for at, value in enumerate((0.850, 0.852, 0.851))]
    assert len(changes(before, lower)) == 1


def test_rounding_near_nothing_is_no_change() -> None:
    assert changes([row_of(distance=1e-9)], [row_of(distance=3e-8)]) == []
    assert changes([row_of(distance=0.0, seconds=0.0)], [row_of(distance=0.0, seconds=0.0)]) == []


def test_failures_are_changes() -> None:
    found = changes([row_of("auto", seconds=1.0), row_of("saga", reason="it is not installed")],
                    [row_of("auto", reason="it diverged"), row_of("saga", seconds=1.0)])  # fmt: skip
    assert [(own.kind, own.better) for own in found] == [("fails", False), ("works", True)]
    assert "it diverged" in found[0].in_words
    assert "it is not installed" in found[1].in_words


def test_one_failed_repeat_is_no_failure() -> None:
    before = [row_of(seconds=1.0), row_of(repeat=1, seconds=1.0)]
    assert changes(before, [row_of(seconds=1.0), row_of(repeat=1, reason="it was killed")]) == []


def test_rows_come_and_go() -> None:
    names = [row_of(name, seconds=1.0) for name in ("a", "b", "c", "d")]
    found = changes([names[0], names[1], names[3]], [names[0], names[2], names[3]])
    assert [(own.kind, own.what.split(", ")[-2]) for own in found] == [("gone", "b"), ("new", "c")]


@pytest.mark.parametrize("before_is_short", [True, False])
def test_a_run_that_was_cut_short_is_compared_as_far_as_it_goes(before_is_short: bool) -> None:
    whole = [row_of(name, seconds=1.0) for name in "abcdefgh"]
    short = [row_of("a", seconds=1.0), row_of("b", seconds=3.0)]
    found = changes(short, whole) if before_is_short else changes(whole, short)
    assert [own.kind for own in found] == ["cut", "measure"]
    assert "6 of 8 rows" in found[0].in_words
    assert ("the run before" if before_is_short else "this run") in found[0].in_words


def test_settings_are_named_where_they_tell_rows_apart() -> None:
    def own(block: int, seconds: float) -> Row:
        return replace(row_of(seconds=seconds), settings={"block_size": block})

    (found,) = changes([own(10, 1.0), own(20, 1.0)], [own(10, 1.0), own(20, 9.0)])
    assert "block_size 20" in found.what
    (found,) = changes([own(10, 1.0)], [own(10, 9.0)])
    assert "block_size" not in found.what


def test_another_choice_of_a_sweep_is_one_change() -> None:
    def own(block: int, seconds: float) -> Row:
        return replace(row_of(seconds=seconds), settings={"block_size": block, "passes": 3})

    others = [row_of(name, seconds=1.0) for name in "ab"]
    (found,) = changes([own(10, 1.0), *others], [own(20, 9.0), *others])
    assert found.kind == "choice"
    assert "block_size is 20 and was 10" in found.in_words
    assert "passes" not in found.in_words


def test_where_threads_race_one_run_says_little() -> None:
    def runs(system: str, times: int = 1, threads: int = 2, **measures: float) -> list[Row]:
        return [row_of(system, repeat=at, threads=threads, **measures) for at in range(times)]

    assert changes(runs("Hogwild!", distance=0.0, auc=0.95), runs("Hogwild!", distance=0.03, auc=0.949)) == []
    assert [own.measure for own in changes(runs("Hogwild!", auc=0.95), runs("Hogwild!", auc=0.9))] == ["auc"]
    assert len(changes(runs("Hogwild!", 3, distance=0.0), runs("Hogwild!", 3, distance=0.03))) == 1
    assert len(changes(runs("Hogwild!", 1, 1, distance=0.0), runs("Hogwild!", 1, 1, distance=0.03))) == 1
    assert len(changes(runs("MR-SymSGD", distance=0.0), runs("MR-SymSGD", distance=0.03))) == 1


def test_the_summary_says_how_much_was_looked_at() -> None:
    before, after = records(BEFORE, [row_of(seconds=1.0, auc=0.9)]), records(AFTER, [row_of(seconds=1.0, auc=0.9)])
    assert summary(before, after, compare(before, after)) == "since run a, nothing changed beyond noise in 2 measures"
    assert "no earlier run" in summary(None, after, [])
    worse = records(AFTER, [row_of(seconds=9.0, auc=0.9)])
    assert "1 of 2 measures changed" in summary(before, worse, compare(before, worse))


def earlier(name: str, day: int, **changed: Any) -> list[Record]:
    return records(run_named(name, f"2026-01-{day:02}T10:00:00+00:00", **changed), [row_of(seconds=1.0)])


def test_the_run_before_is_of_the_same_command_size_and_machine() -> None:
    newest = records(AFTER, [row_of(seconds=1.0)])
    others = [
        *earlier("other command", 9, command="symsgd bench peers"),
        *earlier("other size", 8, size="tiny"),
        *earlier("other machine", 7, environment=replace(ENVIRONMENT, cores=2)),
        *records(run_named("later", "2026-03-01T10:00:00+00:00"), [row_of(seconds=1.0)]),
    ]
    assert previous(newest, [*others, *newest]) is None
    same = [*earlier("older", 3), *earlier("newer", 5, environment=replace(ENVIRONMENT, commit="f" * 12)),
            *earlier("old", 4)]  # fmt: skip
    found = previous(newest, [*newest, *same, *others])
    assert found is not None
    assert found[0].run.name == "newer"
