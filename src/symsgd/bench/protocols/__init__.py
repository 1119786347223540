"""The protocols, one a file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the program's help names the protocols, and does not wait for numpy
    from symsgd.bench.protocols.base import Protocol

PROTOCOLS: tuple[str, ...] = ("quick", "paper", "fidelity", "convergence", "peers", "scaling")


def find(name: str) -> Protocol:
    """The protocol of that name: class ``Paper`` of ``protocols/paper.py`` and so on."""
    if name not in PROTOCOLS:
        raise ValueError(f"protocol={name!r} is not known; accepted are {', '.join(PROTOCOLS)}")
    found: type[Protocol] = getattr(import_module(f"symsgd.bench.protocols.{name}"), name.capitalize())
    return found()
