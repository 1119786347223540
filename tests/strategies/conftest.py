"""Problems here are so small that one thread would train most of them alone: they have rounds all the same."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def always(rounds_on_small_problems: None) -> None:
    pass
