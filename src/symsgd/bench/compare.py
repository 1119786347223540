"""What changed between two runs, beyond noise (noise.py says what that is)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from symsgd.bench.noise import Drift, Kind, Pair, Scatter, drift_of, higher_is_better, noise_of, races, without
from symsgd.bench.records import Record, Row, runs_of

ChangeKind = Literal["drift", "fails", "works", "measure", "choice", "gone", "new", "cut"]
ORDER: tuple[ChangeKind, ...] = ("drift", "cut", "fails", "works", "measure", "choice", "gone", "new")

# what is known of a row in one run: the repeats of each measure, and the reason if there is none
Known = dict[tuple[object, ...], list[Row]]


@dataclass(frozen=True)
class Change:
    """Something that is not what it was. ``better`` is None where nobody can say.

    ``noise`` is what the two numbers of a measure may differ by without being reported, relative.
    """

    kind: ChangeKind
    what: str
    measure: str = ""
    before: float = 0.0
    after: float = 0.0
    noise: float = 0.0
    better: bool | None = None
    detail: str = ""

    @property
    def in_words(self) -> str:
        match self.kind:
            case "drift":
                return (
                    f"all times: {_times(self.after, 'slower', 'faster')} throughout, as when the machine is busier or "
                    "less so than it was; this is taken out of what follows"
                )
            case "cut":
                return self.what
            case "fails":
                return f"{self.what}: worked, and now does not: {self.detail}"
            case "works":
                return f"{self.what}: works now; before: {self.detail}"
            case "choice":
                return f"{self.what}: {self.detail}, so that it is not compared"
            case "gone":
                return f"{self.what}: was measured before, and is not in this run"
            case "new":
                return f"{self.what}: is new in this run"
        return f"{self.what}: {self.measure} {self.before:.5g} → {self.after:.5g}, {self.detail}"


def previous(newest: Sequence[Record], records: Sequence[Record]) -> list[Record] | None:
    """The run before the newest that can be compared with it: of the same command, size and machine."""
    own = newest[0].run
    found = None
    for rows in runs_of(records).values():
        run = rows[0].run
        same = (run.command, run.size, run.environment.machine) == (own.command, own.size, own.environment.machine)
        if same and run.name != own.name and run.started <= own.started:
            found = rows
    return found


def compare(before: Sequence[Record], after: Sequence[Record]) -> list[Change]:
    """What is different in ``after``, the most telling first. A run that was cut short counts as far as it goes."""
    old, new = _known(before), _known(after)
    names = _names([*(rows[0] for rows in new.values()), *(rows[0] for key, rows in old.items() if key not in new)])
    found = _choices(old, new)
    found += _missing(old, new, names, "gone") + _missing(new, old, names, "new")
    for key in old.keys() & new.keys():
        was, now = _reason(old[key]), _reason(new[key])
        if now and not was:
            found.append(Change("fails", names[key], better=False, detail=now))
        elif was and not now:
            found.append(Change("works", names[key], better=True, detail=was))
    pairs = _pairs(old, new)
    drift = drift_of(list(pairs.values()))
    if drift.beyond_noise:
        found.append(Change("drift", "all times", "seconds", 1.0, math.exp(drift.amount), better=drift.amount < 0))
    found += _measures(pairs, drift, names)
    return sorted(found, key=lambda own: (ORDER.index(own.kind), -_size(own), own.what, own.measure))


def summary(before: Sequence[Record] | None, after: Sequence[Record], changes: Sequence[Change]) -> str:
    """One sentence on what `compare` has found."""
    if before is None:
        return "there is no earlier run of the same command and size on this machine to compare with"
    run, number = before[0].run, len(_pairs(_known(before), _known(after)))
    since = f"since run {run.name}"
    if not changes:
        return f"{since}, nothing changed beyond noise in {number} {'measure' if number == 1 else 'measures'}"
    counts = Counter(own.kind for own in changes)
    words: dict[ChangeKind, str] = {
        "measure": f"of {number} measures changed", "fails": "began to fail", "works": "began to work",
        "choice": "with other settings", "gone": "gone", "new": "new",
    }  # fmt: skip
    parts = [f"{counts[kind]} {word}" for kind, word in words.items() if counts[kind]]
    parts += [f"all times {_times(own.after, 'slower', 'faster')}" for own in changes if own.kind == "drift"]
    return f"{since}, beyond noise: {', '.join(parts) or 'no measure changed'}"


def _known(records: Iterable[Record]) -> Known:
    found: Known = {}
    for record in records:
        found.setdefault(record.row.key, []).append(record.row)
    return found


def _reason(rows: Sequence[Row]) -> str:
    """Why nothing was measured; empty if one repeat at least was."""
    return "" if any(not row.reason for row in rows) else rows[0].reason


def _pairs(old: Known, new: Known) -> dict[tuple[tuple[object, ...], str], Pair]:
    """Every measure that both runs have."""
    found = {}
    for key, rows in new.items():
        for measure in dict.fromkeys(name for row in rows for name in row.measures):
            sides = [
                tuple(float(row.measures[measure]) for row in own if measure in row.measures)
                for own in (old.get(key, []), rows)
            ]
            if all(sides):
                found[key, measure] = Pair(measure, sides[0], sides[1], races(rows[0].system, rows[0].threads))
    return found


def _measures(
    pairs: dict[tuple[tuple[object, ...], str], Pair], drift: Drift, names: dict[tuple[object, ...], str]
) -> list[Change]:
    like: dict[tuple[object, ...], list[Pair]] = {}
    for (key, _), pair in pairs.items():
        like.setdefault(_family(key, pair), []).append(pair)
    scatters = {family: Scatter.among(own, drift) for family, own in like.items()}
    found = []
    for (key, measure), pair in pairs.items():
        noise, difference = noise_of(pair, scatters[_family(key, pair)], len(pairs)), without(drift, pair)
        if abs(difference) <= noise:
            continue
        higher = higher_is_better(measure)
        better = None if higher is None else (difference > 0) == higher
        centres = pair.centres
        detail = _difference(pair.kind, difference, noise)
        if pair.kind != "value" and min(len(pair.before), len(pair.after)) == 1:
            detail += "; measured once, so that it may have been a busy moment"
        found.append(Change("measure", names[key], measure, *centres, noise, better, detail))
    return found


def _family(key: tuple[object, ...], pair: Pair) -> tuple[object, ...]:
    """What is alike in its noise: all times; any other measure of one system."""
    return ("clock",) if pair.kind in ("time", "rate") else (pair.kind, pair.measure, key[4])


def _difference(kind: Kind, difference: float, noise: float) -> str:
    if kind == "value":
        much = f" by {abs(difference):.2%}" if abs(difference) < 0.5 else ""
        return f"{'higher' if difference > 0 else 'lower'}{much}, where noise is {noise:.2g} of it"
    words = ("slower", "faster") if kind == "time" else ("higher", "lower")
    return f"{_times(math.exp(difference), *words)}, where noise is a factor of {math.exp(noise):.2f}"


def _times(ratio: float, above: str, below: str) -> str:
    return f"{max(ratio, 1 / ratio):.2f} times {above if ratio > 1 else below}"


def _size(change: Change) -> float:
    """How far beyond noise a measure is."""
    if change.kind != "measure" or not change.noise:
        return 0.0
    smaller, larger = sorted((abs(change.before), abs(change.after)))
    return (larger - smaller) / (larger or 1.0) / change.noise


def _choices(old: Known, new: Known) -> list[Change]:
    """Rows that only their settings tell from one of the other run: a sweep has chosen something else. They are taken
    out of both."""
    sides: list[dict[tuple[object, ...], list[tuple[object, ...]]]] = [{}, {}]
    for side, here, there in zip(sides, (old, new), (new, old), strict=True):
        for key in here:
            if key not in there:
                side.setdefault(key[:-1], []).append(key)
    found = []
    for rest in sides[0].keys() & sides[1].keys():
        before, after = sides[0][rest], sides[1][rest]
        if len(before) == len(after) == 1:
            was, now = old.pop(before[0])[0], new.pop(after[0])[0]
            found.append(Change("choice", _in_words(now), detail=_other_settings(was.settings, now.settings)))
    return found


def _other_settings(was: Mapping[str, object], now: Mapping[str, object]) -> str:
    differing = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    return ", ".join(f"{name} is {now.get(name, 'not set')} and was {was.get(name, 'not set')}" for name in differing)


def _missing(here: Known, there: Known, names: dict[tuple[object, ...], str], kind: ChangeKind) -> list[Change]:
    """Rows that only one run has. If the other has nothing else, those at the end are one change: it was cut short."""
    keys = list(here)
    last = max((at for at, key in enumerate(keys) if key in there), default=-1)
    missing = [key for key in keys[: last + 1] if key not in there]
    found = [Change(kind, names[key], better=False if kind == "gone" else None) for key in missing]
    behind = len(keys) - last - 1
    if not behind:
        return found
    if any(key not in here for key in there):  # it has rows of its own: it did something else, and did not stop
        return found + [Change(kind, names[key]) for key in keys[last + 1 :]]
    which = "this run" if kind == "gone" else "the run before"
    whole = f"none of the last {behind} of {len(keys)} rows is in {which}, which was cut short or did not have them yet"
    return [*found, Change("cut", whole)]


def _names(rows: Sequence[Row]) -> dict[tuple[object, ...], str]:
    """Rows in words; settings where they alone tell two rows apart."""
    short = {row.key: _in_words(row) for row in rows}
    counts = Counter(short.values())
    settings = {row.key: ", ".join(f"{name} {value}" for name, value in sorted(row.settings.items())) for row in rows}
    return {key: f"{name} ({settings[key]})" if counts[name] > 1 else name for key, name in short.items()}


def _in_words(row: Row) -> str:
    threads = "1 thread" if row.threads == 1 else f"{row.threads} threads"
    words = [row.data, row.loss.replace("_", " "), row.system, threads if row.system else ""]
    return f"{row.protocol}, {row.part}: {', '.join(own for own in words if own)}"
