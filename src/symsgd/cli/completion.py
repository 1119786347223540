"""`symsgd completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click


@click.command(short_help="Print a script that lets your shell complete commands.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
def command(shell: str) -> None:
    """Print a script for SHELL (bash, zsh or fish) that completes commands, options and their values.

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
