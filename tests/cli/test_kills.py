"""Trainings of the command line that are killed; `python tests/kill_training.py` does more of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_trainings_killed_at_random_moments_end_with_the_same_model() -> None:
    script = Path(__file__).parents[1] / "kill_training.py"
    done = subprocess.run([sys.executable, str(script), "18"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "18 kills, nothing lost" in done.stdout
