"""What all commands share: where output goes, what an error looks like, and which exit code it has."""

from __future__ import annotations

import errno
import functools
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

FAILED = 1
INTERRUPTED = 130  # 128 + SIGINT, as shells say
PIPE_CLOSED = 141  # 128 + SIGPIPE
WIDEST_LINE = 200  # where there is no terminal that says how wide it is


@dataclass(frozen=True)
class Output:
    """Results to standard output, as text or as JSON; everything else to standard error."""

    quiet: bool = False
    verbose: bool = False
    as_json: bool = False
    debug: bool = False

    def note(self, text: str) -> None:
        """A line for whoever watches."""
        if not self.quiet:
            click.echo(f"symsgd: {text}", err=True)

    def notes(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.note(text)

    def document(self, content: Any) -> None:
        """The result as JSON, if that is what was asked for."""
        if self.as_json:
            click.echo(json.dumps(content, allow_nan=False, default=_plain))

    @property
    def speaks(self) -> bool:
        """Whether results are wanted as text."""
        return not (self.quiet or self.as_json)

    def text(self, text: str) -> None:
        """A line of the result."""
        if self.speaks:
            click.echo(text)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
        """A table of the result; numbers stand under one another."""
        if not self.speaks:
            return
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
        for at, column in enumerate(columns):
            table.add_column(column, justify="left" if at == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*row)
        console(sys.stdout).print(table)

    def watch(self) -> Console | None:
        """Where progress is shown; None if nobody wants to see it."""
        return None if self.quiet else console(sys.stderr)


def console(file: Any) -> Console:
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))  # rich's own way is to exit with 1

    return Plain(file=file, highlight=False, markup=False, width=None if file.isatty() else WIDEST_LINE)


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays as JSON knows them."""
    return value.tolist()


def short(number: float, digits: int = 5) -> str:
    """With so many digits behind the point; with so many in all if it is very large or very small."""
    return f"{number:.{digits}f}" if number == 0 or 10.0**-digits < abs(number) < 1e6 else f"{number:.{digits}g}"


def check_target(path: str) -> None:
    """OSError if no file can be written there: better now than when there is a result to write."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder; give the name of a file", path)
    if target.exists() and not target.is_file():
        raise FileExistsError(errno.EEXIST, "it is not a regular file, and would be replaced by one", path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", path)
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "its folder cannot be written to", path)


def with_output(function: F) -> F:
    """Gives a command the options for output, and turns what goes wrong into a line and an exit code."""

    @click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
    @click.option("-v", "--verbose", is_flag=True, help="Say more on standard error.")
    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(function)
    def run(*arguments: Any, quiet: bool, verbose: bool, as_json: bool, debug: bool, **options: Any) -> None:
        output = Output(quiet, verbose, as_json, debug)
        # closed by whoever started this, as some daemons do
        sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
        sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
        try:
            with _heard(output):
                function(*arguments, output=output, **options)
            sys.stdout.flush()
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BaseException as error:
            _leave(error, debug)

    return run  # type: ignore[return-value]


@contextmanager
def _heard(output: Output) -> Iterator[None]:
    """Warnings, and the log if it was asked for, as lines on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("symsgd: %(message)s"))
    logger = logging.getLogger("symsgd")
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO if output.verbose else logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: output.note(str(message))
            yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


def _leave(error: BaseException, debug: bool) -> None:
    """Ends the program with what the error deserves."""
    if debug and not isinstance(error, SystemExit):
        traceback.print_exc()
    match error:
        case SystemExit():
            raise error
        case KeyboardInterrupt():
            click.echo(f"symsgd: {str(error) or 'interrupted'}", err=True)
            sys.exit(INTERRUPTED)
        case OSError(errno=errno.EPIPE):
            # the interpreter would complain once more when it flushes what nobody reads
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(PIPE_CLOSED)
        case OSError(strerror=str(reason), filename=str(name)):
            message = f"{name}: {reason}"
        case ValueError() | OSError() | ImportError():
            message = str(error)
        case MemoryError():
            message = f"not enough memory{': ' if str(error) else ''}{error}"
        case _:
            message = f"internal error, {type(error).__name__}: {error} (--debug shows where)"
    click.echo(f"symsgd: error: {' '.join(message.split())}", err=True)
    sys.exit(FAILED)
