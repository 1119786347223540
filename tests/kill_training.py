"""Kills `symsgd train … --checkpoint …` at random moments and starts it again, until it ends by itself.

    python tests/kill_training.py [KILLS]

Whenever it is killed (SIGKILL), what lies there as its model is the one from before or the whole new one, and what lies
there as its checkpoint opens and has lost no pass. The model that comes out in the end is, to the bit, that of a
training which nobody killed; only the seconds in its records are others.
"""

from __future__ import annotations

import dataclasses
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.base
import sklearn.metrics

import symsgd
import symsgd.cli.targets
import symsgd.cli.train
from seeds import try_seeds
from store_cases import Source, quick_folder, sparse_part, write
from symsgd import archives
from symsgd.cli import main as program
from symsgd.data.dataset import Schema

ROWS, FEATURES, PASSES = 4000, 60, 60
CASES = {  # how often the checkpoint is written, and how the training goes
    "sequential": (1, "--strategy sequential"),
    "curvature": (1, "--strategy mr-symsgd --combiner curvature --block-size 64 --threads 2"),
    "projected": (7, "--strategy mr-symsgd --k 5 --threads 2"),
    "averages of three classes": (2, "--average"),
    "early stopping": (1, "--early-stopping --tol 1e-9 --patience 40"),
    "l1": (3, "--penalty l1 --alpha 1e-4"),
}
# all that a training imports, so that forks need not
WARM = (symsgd.SGDClassifier, symsgd.train, sklearn.base, sklearn.metrics, symsgd.cli.train, symsgd.cli.targets)


def rows(path: Path, classes: int) -> None:
    """A store to train from."""
    rng = np.random.default_rng(classes)
    part = sparse_part(rng, ROWS, FEATURES)
    weights = rng.standard_normal(FEATURES)
    scores = np.add.reduceat(np.append(part.rows.values * weights[part.rows.indices], 0.0), part.rows.starts[:-1])
    part = dataclasses.replace(part, y=np.digitize(scores, np.quantile(scores, np.arange(1, classes) / classes)) * 1.0)
    write(path, Source([part], Schema("svmlight", FEATURES, options={"base": 1})))


@dataclasses.dataclass(frozen=True)
class Training:
    """One training of the command line, in a folder of its own."""

    folder: Path
    every: int
    options: str

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def start(self, *, kept: bool = True) -> int:
        """The process that trains: a fork, so that it need not import anything."""
        child = os.fork()
        if child:
            return child
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            command = ["train", self.folder / "rows.store", "-o", self.model, "--passes", PASSES, *self.options.split()]
            kept_in = ["--checkpoint", self.checkpoint, "--every", self.every] if kept else []
            program([str(own) for own in (*command, *kept_in)])
        except SystemExit as end:
            os._exit(int(end.code or 0))
        finally:
            os._exit(1)

    def passes_kept(self) -> int:
        """In the checkpoint, which is whole if it is there."""
        if not self.checkpoint.exists():
            return 0
        document, _ = archives.read(archives.CHECKPOINT, self.checkpoint)
        return len(document["passes"])


def ended(child: int, seconds: float) -> bool:
    """Whether it ended by itself, and well, in that time; it is killed if not."""
    handle = os.pidfd_open(child)
    select.select([handle], [], [], seconds)
    os.close(handle)
    os.kill(child, signal.SIGKILL)  # one that has ended stays a zombie until it is waited for
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"exit code {code}"
    return code == 0


def contents(path: Path) -> dict[str, Any]:
    """All of a model but the seconds that its passes took."""
    document, arrays = archives.read(archives.MODEL, path)
    for record in document["result"]["passes"]:
        record["seconds"] = None
    return {"document": document, **{name: (own.dtype.str, own.shape, own.tobytes()) for name, own in arrays.items()}}


def kills(training: Training, seed: int) -> Iterator[int]:
    """Trains undisturbed, then kills and starts again for ever; yields after each kill how many passes were kept."""
    begin = time.monotonic()
    assert ended(training.start(kept=False), 600)
    seconds = time.monotonic() - begin
    expected = contents(training.model)
    rng = np.random.default_rng(seed)
    while True:
        training.checkpoint.unlink(missing_ok=True)
        before = b"the model of last year"
        training.model.write_bytes(before)
        kept = 0
        while not ended(training.start(), rng.random() * 1.5 * seconds):
            there = training.model.read_bytes() == before or contents(training.model) == expected
            assert there, "a model that is neither the old one nor the new one"
            assert training.passes_kept() >= kept, "passes that were kept are lost"
            kept = training.passes_kept()
            yield kept
        assert contents(training.model) == expected, "not the model of the undisturbed training"


class Kills:
    """All cases in turn, a kill each time."""

    def __init__(self, folder: Path) -> None:
        self.folders: list[Path] = []
        self.kept: list[list[int]] = []
        self._going = []
        for at, (name, how) in enumerate(CASES.items()):
            own = folder / str(at)
            own.mkdir()
            rows(own / "rows.store", 3 if "three" in name else 2)
            self.folders.append(own)
            self.kept.append([])
            self._going.append(kills(Training(own, *how), at))

    def __call__(self, seed: int) -> None:
        at = seed % len(CASES)
        self.kept[at].append(next(self._going[at]))
        litter = sorted(own.name for own in self.folders[at].iterdir() if own.name.endswith(".part"))
        assert len(litter) <= 2, f"killed trainings leave their files: {litter}"


def main() -> None:
    with quick_folder() as folder:
        attempt = Kills(Path(folder))
        n_kills = try_seeds(attempt, 300)
    for name, kept in zip(CASES, attempt.kept, strict=True):
        print(f"{name}: {len(kept)} kills, {len(set(kept))} places to go on from")
    print(f"{n_kills} kills, nothing lost")


if __name__ == "__main__":
    main()
