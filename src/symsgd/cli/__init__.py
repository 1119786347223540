"""The `symsgd` program: one file a command.

A command parses, calls and prints. ``frame`` has what all of them share: output, errors, exit codes; ``sources`` is the
only place that knows readers and stores; ``settings`` says what options mean to a training. Modules import what is
heavy where they use it, so that help and completion answer at once.
"""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = ("train", "predict", "evaluate", "tune", "inspect", "convert", "twin", "spectrum", "bench", "completion")


class Commands(click.Group):
    """Imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"symsgd.cli.{cmd_name}").command
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="symsgd", prog_name="symsgd")
def main() -> None:
    """Trains linear models by stochastic gradient descent, on all cores, with the answer of one.

    \b
    From a file of rows to predictions:
        symsgd train train.svm -o model --holdout 0.1
        symsgd evaluate model test.svm
        symsgd predict model new.svm -o predictions.txt

    Results go to standard output, everything else to standard error. The exit code is 0 if all went well, 1 if the data
    or the training has an error, 2 if the command line has one, 130 after Ctrl-C.
    """
