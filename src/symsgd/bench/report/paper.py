"""The *paper* protocol's rows as the paper shows its own: its table, its speedups, its singular values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from symsgd.bench.protocols.base import mean
from symsgd.bench.protocols.paper import ASYNC, AUTO, HOGWILD, MAP_REDUCE, SAMPLE, SEQUENTIAL
from symsgd.bench.records import Record, Row
from symsgd.bench.report.base import Cell, Section, Table, number
from symsgd.bench.report.paper_charts import charts_of_singular_values, charts_of_speedups
from symsgd.bench.report.paper_rows import IN_WORDS, Speedups

SYSTEMS = (HOGWILD, ASYNC, MAP_REDUCE, AUTO)


@dataclass(frozen=True)
class Printed:
    """A line of the paper's table of data sets. AUC and speedup of Async-SymSGD over Hogwild!: by loss."""

    features: int
    rows: int
    nonzeros_a_row: float
    nfnz: float
    auc: dict[str, float]
    over_hogwild: dict[str, float]


def _printed(features: int, rows: int, nonzeros: float, nfnz: float, *by_loss: float) -> Printed:
    logistic_auc, linear_auc, logistic, linear = by_loss
    return Printed(
        features, rows, nonzeros, nfnz, {"log_loss": logistic_auc, "squared_error": linear_auc},
        {"log_loss": logistic, "squared_error": linear},
    )  # fmt: skip


# Maleki, Musuvathi, Mytkowicz: Parallel Stochastic Gradient Descent with Sound Combiners (2017), table "Datasets
# characteristics"; 16 cores of an Intel Xeon E5-2630 v3. RCV1's AUCs are Epsilon's to all digits, a likely misprint.
PAPER = {
    "rcv1": _printed(47_153, 781_265, 74.71, 0.219, 0.9586, 0.959, 2.60, 2.60),
    "adclick": _printed(3_076, 499_980, 969.38, 0.947, 0.7443, 0.7654, 2.99, 2.94),
    "epsilon": _printed(2_000, 400_000, 2000.0, 1.0, 0.9586, 0.959, 2.55, 2.45),
    "url": _printed(3_231_961, 1_677_282, 111.62, 0.765, 0.9991, 0.9986, 1.90, 1.04),
    "criteo": _printed(1_703_961, 1_000_000, 33.32, 0.530, 0.7627, 0.7633, 2.05, 1.91),
    "webspam": _printed(16_609_143, 279_999, 3727.75, 0.693, 0.9992, 0.9909, 1.43, 1.78),
}


def printed(data: str) -> Printed | None:
    """What the paper says of a set, or of that which it is a twin of."""
    return PAPER.get(data.removesuffix(" twin"))


def sections(records: Sequence[Record]) -> list[Section]:
    if not records:
        return []
    rows, command = [record.row for record in records], records[0].run.command
    found = [
        Section(
            "The paper's table",
            "What the data sets are, what sequential SGD reaches on them, and how much faster Async-SymSGD is than "
            "Hogwild! at the most threads: ours beside what the paper printed.",
            command,
            [*_data_table(rows), *_hogwild_table(rows), *_step_table(rows)],
        ),
        Section(
            "Speedups by threads",
            "Over the sequential loop of the same kernels, run in the same turns: the mean of its seconds over the "
            "mean of the system's. The step size is the best of the sequential run; block size and k are those of the "
            "fastest configuration at the most threads whose AUC differs from the sequential one by less than 1e-4, "
            "or of the nearest where none does. Lines through points are the span of the repeats; a point is hollow "
            "where one of them does not hold that AUC.",
            command,
            [*charts_of_speedups(rows), *_speedup_table(rows), *_configuration_table(rows)],
        ),
        Section(
            "Singular values of combiners",
            "M is the derivative of a block's end in its start. What the paper projects is M − I, whose singular "
            "values decide the variance of the projection: small for small steps and small blocks.",
            command,
            charts_of_singular_values(rows),
        ),
        Section("Not measured", "What could not be had, or diverged, and why.", command, list(_failures(rows))),
    ]
    return [section for section in found if section.items]


def _data_table(rows: Sequence[Row]) -> Iterator[Table]:
    facts: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.part == "data":
            facts.setdefault(row.data, {})[row.loss] = row
    if not facts:
        return
    columns = ["data set"]
    for name in ("features", "rows", "nonzeros a row", "NFNZ", "AUC logistic", "AUC linear"):
        columns += [name, f"{name}, paper"]
    lines = []
    for data, by_loss in facts.items():
        first, paper = next(iter(by_loss.values())), printed(data)
        line = [Cell(data)]
        for name, form in (("features", ",.0f"), ("rows", ",.0f"), ("nonzeros_a_row", ".2f"), ("nfnz", ".3f")):
            line += [number(first.measures.get(name), form), number(getattr(paper, name, None), form)]
        for loss in IN_WORDS:
            auc = by_loss[loss].measures.get("auc") if loss in by_loss else None
            line += [number(auc, ".4f"), number(paper.auc[loss] if paper else None, ".4f")]
        lines.append(line)
    yield Table(
        "Data sets, and the AUC of sequential SGD at its best constant step size", columns, lines,
        "NFNZ: of a row's nonzeros the share on features that a tenth of the rows have, a mean over at most "
        f"{SAMPLE:,} rows. A twin has the paper's features and a share of its rows. The paper's AUCs of RCV1 are those "
        "of Epsilon, a likely misprint.",
    )  # fmt: skip


def _hogwild_table(rows: Sequence[Row]) -> Iterator[Table]:
    speedups = Speedups.of(rows)
    lines = []
    for data, loss in speedups.cases:
        most, paper = max(speedups.threads(data, loss)), printed(data)
        lines.append(
            [
                Cell(data), Cell(IN_WORDS.get(loss, loss)), number(most, "d"),
                number(speedups.ratio(data, loss, ASYNC, HOGWILD, most), ".2f"),
                number(paper.over_hogwild.get(loss) if paper else None, ".2f"),
                number(speedups.ratio(data, loss, AUTO, HOGWILD, most), ".2f"),
                *(_times(speedups, data, loss, system, most) for system in SYSTEMS),
            ]
        )  # fmt: skip
    if lines:
        columns = ["data set", "loss", "threads", "Async over Hogwild!", "paper, 16 threads", "auto over Hogwild!"]
        columns += [f"{system} over sequential" for system in SYSTEMS]
        note = "Means of all repeats; ✗ where one of them does not hold the sequential AUC to 1e-4."
        yield Table("How many times faster", columns, lines, note)


def _times(speedups: Speedups, data: str, loss: str, system: str, threads: int) -> Cell:
    ratio = speedups.ratio(data, loss, system, SEQUENTIAL, threads)
    if ratio is None:
        return Cell("failed", 0.0, good=False)
    holds = speedups.hold(data, loss, system, threads)
    return Cell(f"{ratio:.2f}{'' if holds else ' ✗'}", ratio, None if holds else False)


def _step_table(rows: Sequence[Row]) -> Iterator[Table]:
    best = {(row.data, row.loss): row.settings.get("step_size") for row in rows if row.part == "data"}
    lines = []
    for row in rows:
        if row.part == "step size":
            step_size = row.settings["step_size"]
            chosen = best.get((row.data, row.loss)) == step_size
            auc = Cell(row.reason, 0.0, good=False) if row.reason else number(row.measures["auc"], ".5f")
            line = [Cell(row.data), Cell(IN_WORDS.get(row.loss, row.loss)), number(step_size), auc]
            lines.append([*line, Cell("best", 1, good=True) if chosen else Cell("")])
    if lines:
        yield Table("Step sizes of the sequential run", ["data set", "loss", "step size", "AUC", "chosen"], lines)


def _speedup_table(rows: Sequence[Row]) -> Iterator[Table]:
    speedups = Speedups.of(rows)
    lines = []
    for (data, loss, system, threads), runs in speedups.runs.items():
        trained, seconds = [run for run in runs if not run.reason], speedups.seconds(data, loss, system, threads)
        differences = [run.measures["difference"] for run in trained]
        held = sum(run.measures["holds"] > 0 for run in trained)
        lines.append(
            [
                Cell(data), Cell(IN_WORDS.get(loss, loss)), Cell(system), number(threads, "d"),
                number(mean(seconds)) if seconds else Cell("failed", good=False),
                Cell(f"{min(seconds):.4g} … {max(seconds):.4g}", min(seconds)) if seconds else Cell(""),
                number(speedups.ratio(data, loss, system, SEQUENTIAL, threads), ".2f"),
                number(max((run.measures["distance"] for run in trained), default=None), ".3g"),
                number(max(differences, key=abs, default=None), "+.1e"),
                Cell(f"{held} of {len(runs)}", held / len(runs), held == len(runs)),
                number(trained[0].measures.get("alone") if trained else None, ".0%"),
            ]
        )  # fmt: skip
    if lines:
        columns = ["data set", "loss", "system", "threads", "seconds", "least … most", "over sequential", "distance"]
        columns += ["AUC difference", "holds", "alone"]
        yield Table(
            "All runs, by threads", columns, lines,
            "Seconds of all passes, set-up of the strategy included: the mean of the repeats. Sequential rows are "
            "those that took turns with the systems at so many threads. Distance (of the weights from the sequential "
            "ones, over their norm) and AUC difference are those of the farthest run; it holds below 1e-4. Alone: the "
            "share of rows that one thread trained because no block was merged well enough.",
        )  # fmt: skip


def _configuration_table(rows: Sequence[Row]) -> Iterator[Table]:
    tried: dict[tuple[str, str, str], list[Row]] = {}
    chosen: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        case = (row.data, row.loss, row.system)
        if row.part == "configuration":
            tried.setdefault(case, []).append(row)
        elif row.part == "speedup" and row.system != SEQUENTIAL and not row.reason:
            chosen.setdefault(case, row)
    lines = []
    for case, own in tried.items():
        data, loss, system = case
        choice = chosen[case].settings if case in chosen else {}
        found = next((row for row in own if not row.reason and dict(row.settings) == dict(choice)), None)
        measures = found.measures if found else {}
        holding, failed = sum(row.measures.get("holds", 0) > 0 for row in own), sum(bool(row.reason) for row in own)
        verdict = Cell("none trained", -1, False)
        if found:
            verdict = Cell("yes", 1, True) if measures["holds"] else Cell("no, the nearest", 0, False)
        lines.append(
            [
                Cell(data), Cell(IN_WORDS.get(loss, loss)), Cell(system), number(own[0].settings.get("step_size")),
                *(Cell(str(choice.get(name, "")), choice.get(name)) for name in ("block_size", "k")),
                number(measures.get("seconds")), number(measures.get("difference"), "+.1e"), verdict,
                Cell(f"{holding} of {len(own)}", holding / len(own)), number(failed, "d"),
            ]
        )  # fmt: skip
    if lines:
        columns = ["data set", "loss", "system", "step size", "block", "k", "seconds", "AUC difference", "holds"]
        yield Table(
            "Chosen configurations", [*columns, "configurations that hold", "that fail"], lines,
            "At the most threads, one run each; the runs above say whether the choice holds again.",
        )  # fmt: skip


def _failures(rows: Sequence[Row]) -> Iterator[Table]:
    """One line for the same thing going wrong the same way, with how often."""
    counts: dict[tuple[str, str, str, str, str], int] = {}
    for row in rows:
        if row.reason:
            loss = IN_WORDS.get(row.loss, row.loss) if row.system else ""
            case = (row.data, loss, row.system, row.part, row.reason)
            counts[case] = counts.get(case, 0) + 1
    if counts:
        lines = [[*map(Cell, case), number(count, "d")] for case, count in counts.items()]
        yield Table("Failures and skips", ["data set", "loss", "system", "part", "reason", "rows"], lines)
