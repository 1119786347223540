"""The files of models and checkpoints: an uncompressed zip archive of a JSON document and arrays, sealed by a checksum.

    model.json     what the model is, in words and numbers (checkpoint.json: what the training is)
    *.npy          its arrays, numbers or text of fixed width; nothing in it is ever unpickled
    (comment)      "symsgd model, xxh3-64 " and the checksum of every byte before it, in 16 digits

So `unzip -p MODEL model.json` shows a person what it holds, and `numpy.load` reads its arrays, without this library.
Why not safetensors: it would be one more dependency, and has neither text arrays nor a checksum.

The checksum is compared before anything else is read. It is no signature: a file can be sealed by anybody, so what is
inside is still checked on the way.
"""

from __future__ import annotations

import errno
import json
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import xxhash

from symsgd.errors import CheckpointError, ModelError
from symsgd.files import written_whole

Array = npt.NDArray[Any]

BEGINNING = b"PK\x03\x04"  # of every zip archive
NAME_AT = 30  # bytes of a zip entry's header before its name
DIGITS = 16
KINDS = "biufU"  # of numpy's types: numbers and text of fixed width
EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's first day, so that the same model makes the same bytes
CHUNK = 1 << 20


@dataclass(frozen=True)
class Kind:
    """What a file is, and the error of one that is not."""

    name: str
    error: type[ModelError] | type[CheckpointError]

    @property
    def document(self) -> str:
        return f"{self.name}.json"

    @property
    def seal(self) -> bytes:
        return f"symsgd {self.name}, xxh3-64 ".encode("ascii")


MODEL = Kind("model", ModelError)
CHECKPOINT = Kind("checkpoint", CheckpointError)


def write(kind: Kind, path: str | os.PathLike[str], document: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Writes the file, whole or not at all."""
    text = json.dumps(document, indent=1, allow_nan=False).encode("ascii")
    with written_whole(path) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(zipfile.ZipInfo(kind.document, EPOCH), text)
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            archive.comment = kind.seal + b"0" * DIGITS
        end = file.seek(0, os.SEEK_END) - DIGITS
        file.seek(0)
        digest = _digest(file, end)
        file.seek(end)
        file.write(digest)


def read(kind: Kind, path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """The document and the arrays of a file, or the kind's error, which says what is wrong with it."""
    with open(path, "rb") as file:
        _check_seal(kind, file, path)
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                    raise ValueError("it is compressed, and a small file could become a large one")
                document = json.loads(archive.read(kind.document))
                if not isinstance(document, dict):
                    raise ValueError(f"{kind.document} is not an object")
                names = {entry.filename.removesuffix(".npy") for entry in entries if entry.filename != kind.document}
                arrays = {name: _array(archive, f"{name}.npy") for name in names}
        except Exception as error:  # sealed by somebody else: zipfile, json and numpy each have errors of their own
            if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which is a place before the beginning
                raise
            raise kind.error(path, f"is not made as a symsgd {kind.name} is: {error}") from error
    return document, arrays


def _digest(file: IO[bytes], length: int) -> bytes:
    """The checksum of the next ``length`` bytes."""
    checksum = xxhash.xxh3_64()
    while length > 0 and (chunk := file.read(min(length, CHUNK))):
        checksum.update(chunk)
        length -= len(chunk)
    digits: str = checksum.hexdigest()
    return digits.encode("ascii")


def _check_seal(kind: Kind, file: IO[bytes], path: str | os.PathLike[str]) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(NAME_AT + len(kind.document))
    if size == 0:
        raise kind.error(path, "is empty")
    file.seek(max(0, size - len(kind.seal) - DIGITS))
    tail = file.read()
    if not tail.startswith(kind.seal):
        if head.startswith(BEGINNING) and head.endswith(kind.document.encode("ascii")):
            raise kind.error(
                path, f"begins as a symsgd {kind.name} and does not end as one: cut short, at {size:,} bytes?"
            )
        raise kind.error(path, f"is not a symsgd {kind.name}")
    file.seek(0)
    if _digest(file, size - DIGITS) != tail[-DIGITS:]:
        raise kind.error(path, "is damaged: its checksum does not match")
    file.seek(0)


def _array(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(name) as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise ValueError(f"{name} is of another version of numpy's format")
        shape, in_columns, dtype = np.lib.format.read_array_header_1_0(member)
        if dtype.kind not in KINDS or in_columns:
            raise ValueError(f"{name} has the type {dtype}, or another order than row after row")
        data = member.read()
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} has {len(data)} bytes, which does not fit its shape {shape}")
    return np.ndarray(shape, dtype, buffer=data).copy()
