"""`symsgd bench`: the evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from symsgd.bench.protocols import PROTOCOLS
from symsgd.cli.frame import Output, check_target, with_output
from symsgd.cli.tune import Numbers


class Names(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Names, separated by commas."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        found = tuple(own.strip() for own in str(value).split(",") if own.strip())
        if not found:
            self.fail("no name is given", param, ctx)
        return found


@click.command(short_help="Measure this machine: the paper's tables and figures, ours, and the peers.")
@click.argument("protocol", type=click.Choice([*PROTOCOLS, "report"]))
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    default="bench",
    show_default=True,
    help="The folder of results.jsonl, report.html and figures; results of earlier runs stay.",
)
@click.option(
    "--size",
    type=click.Choice(["full", "reduced", "quick", "tiny"]),
    help="full: hours, the paper's sizes; reduced: half an hour; quick: minutes; tiny: seconds.  [default: reduced]",
)
@click.option("--data-dir", type=click.Path(exists=True, file_okay=False), help="Real sets: a folder with realdata.py.")
@click.option("--sets", type=Names(), help="Data sets, separated by commas: 'rcv1 twin', a9a, names in --data-dir.")
@click.option("--systems", type=Names(), help="Of peers: those to run, separated by commas.")
@click.option("--parts", type=Names(), help="Of scaling: rows, nonzeros, features, threads, memory, GPU.")
@click.option("--threads", type=Numbers(whole=True), help="Numbers of threads, as 1,2,4.  [default: up to all cores]")
@click.option("--repeats", type=click.IntRange(min=1), help="Runs of each thing that is timed.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of order and samples.")
@click.option("--against", type=click.Path(exists=True), help="Results to compare with.  [default: the run before]")
@click.option("--markdown", type=click.Path(dir_okay=False), help="Write the tables to this file too, as Markdown.")
@with_output
def command(
    protocol: str, out: str, size: str | None, data_dir: str | None, sets: tuple[str, ...] | None,
    systems: tuple[str, ...] | None, parts: tuple[str, ...] | None, threads: list[int] | None, repeats: int | None,
    seed: int, against: str | None, markdown: str | None, output: Output,
) -> None:  # fmt: skip
    """Measure, and write a report: one page that needs no network, with tables that sort and figures.

    \b
    quick        a little of everything, in five minutes on two cores
    paper        the paper's table, speedups by threads, singular values
    fidelity     how near each strategy is to the sequential run
    convergence  loss and AUC against passes and seconds
    peers        time to 1 % and 0.1 % of the best objective, by us and by others
    scaling      time against rows, nonzeros, features and threads, and the memory
    report       no measurement: the page of what --out has

    \b
        symsgd bench quick
        symsgd bench peers --data-dir data --sets imdb,kdd99 --threads 2
    """
    from symsgd.bench.report.base import Table
    from symsgd.bench.report.markdown import write_markdown
    from symsgd.bench.running import Choices, report_again, run

    if markdown is not None:
        check_target(markdown)
    folder, others = Path(out), None if against is None else Path(against)
    if protocol == "report":
        written = report_again(folder, others)
    else:
        choices = Choices(
            protocol=protocol,
            size=size or ("quick" if protocol == "quick" else "reduced"),  # type: ignore[arg-type]
            data_dir=None if data_dir is None else Path(data_dir),
            sets=sets,
            systems=systems,
            parts=parts,
            threads=None if threads is None else tuple(threads),
            repeats=repeats,
            seed=seed,
        )
        written = run(choices, folder, others, output.note)
    for section in written.shown:
        for item in section.items:
            if isinstance(item, Table):
                output.table(item.columns, [[cell.text for cell in row] for row in item.rows], item.title)
    output.text(written.summary)
    for change in written.changes:
        output.text(f"  {change.in_words}")
    if markdown is not None:
        write_markdown(Path(markdown), written.shown, folder)
    output.document(
        {
            "report": str(written.page),
            "results": str(written.results),
            "summary": written.summary,
            "changes": [change.in_words for change in written.changes],
        }
    )
    output.note(f"report: {written.page}")
