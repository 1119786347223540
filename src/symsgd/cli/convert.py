"""`symsgd convert`: any file of rows into a store."""

from __future__ import annotations

from typing import Any

import click

from symsgd.cli.estimators import load_estimator
from symsgd.cli.frame import Output, check_target, with_output
from symsgd.cli.progress import Watched
from symsgd.cli.sources import check_there, open_reader, reading_options


@click.command(short_help="Convert rows of any format to a store.")
@click.argument("data", type=click.Path(allow_dash=True))
@click.argument("store", type=click.Path())
@click.option("--append", is_flag=True, help="Add the rows to STORE, read as those that it has.")
@click.option(
    "--like", metavar="MODEL", type=click.Path(), help="Read the rows as those that this model was trained on."
)
@reading_options
@with_output
def command(data: str, store: str, append: bool, like: str | None, reading: dict[str, Any], output: Output) -> None:
    """Convert the rows in DATA ("-": standard input) to STORE, a file that opens at once and trains without being read.

    One pass in bounded memory. STORE appears when all of it is there; a conversion that fails or is killed leaves
    what was there before.

    \b
        symsgd convert train.svm.gz train.store
        symsgd convert clicks.csv clicks.store --label clicked --hashed site,device --drop id
        symsgd convert tuesday.svm train.store --append
        symsgd convert test.svm test.store --like model
    """
    if append and like is not None:
        raise click.UsageError("--append reads rows as the store has them, not --like a model")
    check_target(store)
    check_there(data)
    from symsgd import data as sets

    schema = None if like is None else getattr(load_estimator(like), "schema_", None)
    if append:
        schema = sets.open(store).schema
    watched = Watched(open_reader(data, reading, schema), output)
    made = sets.append(store, watched) if append else sets.convert(watched, store)
    output.notes(watched.notes)
    rows, features = made.shape
    output.document(
        {"store": store, "rows": rows, "features": features, "entries": made.n_entries, "bytes": made.nbytes}
    )
    output.text(f"{store}: {rows:,} rows, {features:,} features, {made.n_entries:,} entries, {made.nbytes:,} bytes")
