"""Checkpoints: what a training has come to, kept between passes, so that one that was killed goes on where it was.

A training that resumes ends with the same bits as one that was never killed, whenever that was. So a checkpoint holds
the whole state of the core, not only the model, and everything that decides the bits besides: the data, the rule, the
strategy, the seed, the number of threads, the instruction set. It is refused where one of them is another now.

Strategies whose threads race (Hogwild! and all that is asynchronous) have no bits to keep; they go on from the model.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xxhash

from symsgd import archives
from symsgd._choices import check_count
from symsgd.callbacks import PassRecord
from symsgd.errors import CheckpointError
from symsgd.inputs import Array
from symsgd.stopping import Patience

FORMAT_VERSION = 1
WHOLE = 16 << 20  # bytes of an array up to which all of them count for its fingerprint
PIECES, PIECE = 64, 64 << 10  # of a larger one, evenly spaced

FIELD_TYPES = {"int": (int,), "float": (float, int), "bool": (bool,), "None": (type(None),)}  # by annotation
Settings = Mapping[str, str]
Record = TypeVar("Record", PassRecord, Patience)


@dataclass(frozen=True)
class Checkpoint:
    """What there is in a file."""

    state: bytes  # the core's
    arrays: Mapping[str, Array]  # models of classes that have stopped, and means
    passes: list[PassRecord]
    patience: Mapping[int, Patience]
    converged: bool
    losses: tuple[float, ...] = ()  # of the last pass, by model


@dataclass(frozen=True)
class Checkpoints:
    """The file of one training, written after every ``every`` passes and at the end."""

    path: Path
    every: int
    settings: Settings  # what has to be the same when it resumes, in words

    @staticmethod
    def check(path: str | os.PathLike[str], every: int, settings: Settings) -> Checkpoints:
        """Refuses before the training what would only fail after it."""
        check_count("every", every)
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"checkpoint={path!r} is not accepted; it must be the path of a file")
        where = Path(path)
        if where.is_dir():
            raise ValueError(f"checkpoint={str(where)!r} is a folder; it must be the path of a file")
        if not where.parent.is_dir():
            raise ValueError(f"checkpoint={str(where)!r} cannot be written: there is no folder {str(where.parent)!r}")
        return Checkpoints(where, every, settings)

    def due(self, number: int, last: bool) -> bool:
        return last or number % self.every == 0

    def save(self, checkpoint: Checkpoint) -> None:
        """Replaces the file; until the new one is complete, the old one stays."""
        document = {
            "version": FORMAT_VERSION,
            "symsgd": version("symsgd"),
            "settings": dict(self.settings),
            "passes": [_as_json(record) for record in checkpoint.passes],
            "patience": {str(c): _as_json(patience) for c, patience in checkpoint.patience.items()},
            "converged": checkpoint.converged,
            "losses": list(checkpoint.losses),
        }
        state = np.frombuffer(checkpoint.state, np.uint8)
        archives.write(archives.CHECKPOINT, self.path, document, {"state": state, **checkpoint.arrays})

    def load(self) -> Checkpoint | None:
        """What was saved last; ``None`` if there is no file yet."""
        if not self.path.exists():
            return None
        document, arrays = archives.read(archives.CHECKPOINT, self.path)
        try:
            self._check(document)
            return Checkpoint(
                arrays.pop("state").tobytes(),
                arrays,
                [_from_json(PassRecord, record) for record in document["passes"]],
                {int(c): _from_json(Patience, patience) for c, patience in document["patience"].items()},
                bool(document["converged"]),
                tuple(float(loss) for loss in document["losses"]),
            )
        except CheckpointError:
            raise
        except Exception as error:  # sealed by somebody else: values can be of any type, in any place
            raise CheckpointError(self.path, f"is not made as a symsgd checkpoint is: {error!r}") from error

    def _check(self, document: Mapping[str, Any]) -> None:
        here = version("symsgd")
        if document["version"] != FORMAT_VERSION or document["symsgd"] != here:
            raise CheckpointError(
                self.path,
                f"was written by symsgd {document['symsgd']}; this is symsgd {here}, which cannot go on from there "
                "with the same bits. Finish it with that version, or delete the file to begin again",
            )
        other = [
            f"{name} was {document['settings'].get(name)} and is {value}"
            for name, value in self.settings.items()
            if document["settings"].get(name) != value
        ]
        if other:
            raise CheckpointError(
                self.path,
                f"is of another training: {'; '.join(other)}. Give another path, or delete the file to begin again",
            )


def fingerprint(array: Any) -> str:
    """A few digits that tell arrays apart; of a large one, some pieces are looked at."""
    if array is None:
        return "none"
    array = np.ascontiguousarray(array)
    digest = xxhash.xxh3_64(f"{array.shape} {array.dtype}".encode())
    if array.dtype.kind == "O":
        digest.update(repr(array.tolist()).encode())
        return str(digest.hexdigest())
    data = array.reshape(-1).view(np.uint8)
    if len(data) <= WHOLE:
        digest.update(data)
    else:
        for piece in range(PIECES):
            begin = (len(data) - PIECE) * piece // (PIECES - 1)
            digest.update(data[begin : begin + PIECE])
    return str(digest.hexdigest())


def _as_json(record: Any) -> dict[str, Any]:
    """Its fields; numbers to the last bit, infinity among them."""
    return {
        name: value.hex() if isinstance(value, float) else value for name, value in dataclasses.asdict(record).items()
    }


def _from_json(kind: type[Record], fields: Mapping[str, Any]) -> Record:
    """What :func:`_as_json` wrote; an error of any kind for anything else."""
    values: dict[str, Any] = {
        name: float.fromhex(value) if isinstance(value, str) else value for name, value in fields.items()
    }
    for own in dataclasses.fields(kind):
        accepted = {type for part in str(own.type).split(" | ") for type in FIELD_TYPES[part]}
        if type(values[own.name]) not in accepted:
            raise TypeError(f"{own.name} is {values[own.name]!r}")
    return kind(**values)
