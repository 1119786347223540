"""Files of rows, and the program: as a process of its own, or in this one where a start would take too long."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from click.testing import CliRunner

from symsgd.cli import main

N, F = 600, 20


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The last line on standard error."""
        return self.err.strip().splitlines()[-1]


def run(*arguments: Any, given: str | bytes | None = None) -> Outcome:
    """The program in this process."""
    result = CliRunner().invoke(main, [str(own) for own in arguments], input=given, prog_name="symsgd")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def good(*arguments: Any, given: str | bytes | None = None) -> Outcome:
    """As :func:`run`, and all must go well."""
    outcome = run(*arguments, given=given)
    assert outcome.code == 0, outcome.err
    return outcome


def process(*arguments: Any, given: bytes | None = None, **options: Any) -> Outcome:
    """The program as a new user runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "symsgd", *map(str, arguments)],
        input=given, capture_output=True, env=os.environ | {"COLUMNS": "100"}, timeout=120, **options,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def rows(seed: int = 0, n: int = N) -> tuple[Any, Any]:
    """Sparse rows, and a noisy score of each."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, F, 0.4, random_state=seed, format="csr")
    return X, X @ np.random.default_rng(9).standard_normal(F) + 0.1 * rng.standard_normal(n)


def write(path: Path, X: Any, y: Any, base: int = 1) -> Path:
    """svmlight text."""
    lines = []
    for i, label in enumerate(y):
        part = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip(X.indices[part] + base, X.data[part], strict=True)
        lines.append(" ".join([f"{label:.12g}", *(f"{index}:{value:.6g}" for index, value in sorted(pairs))]))
    path.write_text("\n".join(lines) + "\n")
    return path


def two_labels(path: Path, seed: int = 0) -> Path:
    X, score = rows(seed)
    return write(path, X, np.where(score > 0, 1, -1))


def three_labels(path: Path, seed: int = 0) -> Path:
    X, score = rows(seed)
    return write(path, X, np.digitize(score, [-0.4, 0.4]))


def numbers(path: Path, seed: int = 0) -> Path:
    return write(path, *rows(seed))
