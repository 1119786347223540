"""The `symsgd` program: one file a command."""

from __future__ import annotations

import click

import symsgd


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(symsgd.__version__, prog_name="symsgd")
def main() -> None:
    """Trains linear models by stochastic gradient descent, on all cores."""
