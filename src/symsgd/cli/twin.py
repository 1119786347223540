"""`symsgd twin`: synthetic twins of the paper's data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from symsgd.cli.frame import Output, check_target, with_output
from symsgd.cli.progress import Watched
from symsgd.cli.settings import positive

NAMES = ("adclick", "criteo", "epsilon", "rcv1", "url", "webspam")  # symsgd.data.TWINS, without what they are made of


@click.command(short_help="Make a synthetic twin of one of the paper's data sets.")
@click.argument("name", type=click.Choice(NAMES), metavar="NAME")
@click.option("-o", "--output-store", "path", required=True, type=click.Path(), help="Where to write the store.")
@click.option("--scale", type=positive(), default=1.0, show_default=True, help="Of the number of rows.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), help="By default every core; the rows are the same.")
@with_output
def command(name: str, path: str, scale: float, seed: int, threads: int | None, output: Output) -> None:
    """Make a synthetic twin of the data set NAME: as many features, nonzeros and frequent features, as good a model.

    NAME is adclick, criteo, epsilon, rcv1, url or webspam.

    The rows to train on go to the store, a fifth as many to test on go to one beside it: rcv1.store, rcv1.test.store.

    \b
        symsgd twin rcv1 -o rcv1.store
        symsgd twin criteo -o criteo.store --scale 0.1 --seed 7
        symsgd train rcv1.store -o model && symsgd evaluate model rcv1.test.store
    """
    check_target(path)
    from symsgd.data import convert, twin_readers

    target = Path(path)
    readers = twin_readers(name, scale, seed, n_threads=threads)
    told: list[dict[str, Any]] = []
    for reader, where in zip(readers, (target, target.with_name(f"{target.stem}.test{target.suffix}")), strict=True):
        made = convert(Watched(reader, output), where)
        rows, features = made.shape
        told.append({"store": str(where), "rows": rows, "features": features, "entries": made.n_entries})
        output.text(f"{where}: {rows:,} rows, {features:,} features, {made.n_entries:,} entries")
    output.document(told)
