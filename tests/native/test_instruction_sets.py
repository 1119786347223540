"""Each instruction set in its own process: it is chosen once a process, by SYMSGD_ISA or as the widest there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from symsgd import _core

SETS = ["baseline", "avx2", "avx512"]
LEARN = Path(__file__).with_name("test_learn.py")

# Of test_learn.py: every loss in both types, lengths and widths of rows, penalties, several classes, averages, scores.
SELECTED = " or ".join(
    [
        "(test_equals_the_reference and full and l2 and not csr64)",
        "(test_equals_the_reference and full and log_loss and not csr64)",
        "test_every_width",
        "(test_several_classes and not csr64)",
        "(test_averages and -1 and not long)",
        "(test_unsorted_and_repeated_indices and repeated)",
        "test_decision",
    ]
)
RUN_SELECTED = """
import sys, pytest
from symsgd import _core
print("instruction set:", _core.instruction_set(), flush=True)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", sys.argv[2], sys.argv[1]]))
"""
SAY = "from symsgd import _core; print('imported'); print(_core.instruction_set())"


def python(code: str, *arguments: str, isa: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "SYMSGD_ISA"}
    if isa is not None:
        environment["SYMSGD_ISA"] = isa
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


@cache
def refusal() -> str:
    """What is said to a set that does not exist, once it is needed: importing the package does not fail."""
    refused = python(SAY, isa="sse9")
    assert refused.stdout.split() == ["imported"]
    assert refused.returncode != 0
    return refused.stderr.strip().splitlines()[-1]


@cache
def available() -> list[str]:
    listed = re.search("this machine has (.*)$", refusal())
    assert listed is not None
    return listed.group(1).split(", ")


def test_an_unknown_set_is_refused_with_a_list_of_those_there_are() -> None:
    assert refusal() == f"ValueError: SYMSGD_ISA=sse9 is not available here; this machine has {', '.join(available())}"
    assert available() == [name for name in SETS if name in available()]
    assert "baseline" in available()


def test_by_default_the_widest_set_runs() -> None:
    assert python(SAY, isa="").stdout.split() == ["imported", available()[-1]]


def test_this_process_runs_what_the_environment_says() -> None:
    assert _core.instruction_set() == (os.environ.get("SYMSGD_ISA") or available()[-1])


@pytest.mark.parametrize("isa", SETS)
def test_equals_the_reference(isa: str) -> None:
    if isa not in available():
        pytest.skip(f"this machine has {', '.join(available())}")
    done = python(RUN_SELECTED, str(LEARN), SELECTED, isa=isa)
    assert done.stdout.splitlines()[0] == f"instruction set: {isa}"
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed.group(1)) > 200
