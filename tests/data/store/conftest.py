from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store_cases import quick_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: every store waits for the disk several times."""
    with quick_folder() as folder:
        yield Path(folder)
