"""Every run of the tests draws the same examples, so that what fails was changed; `HYPOTHESIS_PROFILE=random` draws new
ones, and `make fuzz` is where to look for what nobody thought of."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from symsgd import strategies

settings.register_profile("same", derandomize=True)
settings.register_profile("random", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture
def rounds_on_small_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the curvature combiner, also where one thread would be as fast."""
    monkeypatch.setattr(strategies, "ONLY_WORTH", False)
