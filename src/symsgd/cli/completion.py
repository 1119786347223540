"""`symsgd completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

from typing import Any

import click

from symsgd.cli.frame import with_output


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@with_output
def command(shell: str, **_: Any) -> None:
    """Print a script for your shell that completes commands, options and their values.

    \b
    bash, once:     symsgd completion bash >> ~/.bashrc
    zsh, once:      symsgd completion zsh >> ~/.zshrc
    fish, once:     symsgd completion fish > ~/.config/fish/completions/symsgd.fish
    """
    from click.shell_completion import get_completion_class

    from symsgd.cli import main

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(main, {}, "symsgd", "_SYMSGD_COMPLETE").source())
