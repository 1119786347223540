"""Configuration files: options by name, as TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import click


def _read(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Makes the values of the file the defaults of this command."""
    if value is None:
        return
    try:
        text = Path(value).read_text(encoding="utf-8")
        content = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}", ctx, parameter) from error
    except ValueError as error:
        raise click.BadParameter(f"{value} is neither TOML nor JSON: {error}", ctx, parameter) from error
    options = {own.name: own for own in ctx.command.params if isinstance(own, click.Option)}
    values = {name.replace("-", "_"): own for name, own in content.items()}
    for name in values.keys() - options.keys():
        raise click.BadParameter(f"{value} has {name!r}, which is no option of {ctx.command.name}", ctx, parameter)
    ctx.default_map = {**(ctx.default_map or {}), **values}


config_option = click.option(
    "--config", type=click.Path(), is_eager=True, expose_value=False, callback=_read,
    help="A file of options, as `symsgd tune` writes it; those on the command line go first.",
)  # fmt: skip


def to_text(values: dict[str, Any], path: str) -> str:
    """The file for these options: JSON if that is how its name ends, else TOML."""
    if path.endswith(".json"):
        return json.dumps(values, indent=1) + "\n"
    # strings, numbers and truth values are written alike in both
    return "".join(f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in values.items())
