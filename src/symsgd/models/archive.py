"""The file of a model: an uncompressed zip archive of one JSON document and arrays, sealed by a checksum.

    model.json     what the model is, in words and numbers
    *.npy          its arrays, numbers or text of fixed width; nothing in it is ever unpickled
    (comment)      "symsgd model, xxh3-64 " and the checksum of every byte before it, in 16 digits

So `unzip -p MODEL model.json` shows a person what it holds, and `numpy.load` reads its arrays, without this library.
Why not safetensors: it would be one more dependency, and has neither text arrays nor a checksum.

The checksum is compared before anything else is read. It is no signature: a file can be sealed by anybody, so what is
inside is still checked on the way.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import xxhash

from symsgd.errors import ModelError
from symsgd.files import written_whole

Array = npt.NDArray[Any]

DOCUMENT = "model.json"
BEGINNING = b"PK\x03\x04"  # of every zip archive
NAME_AT = 30  # bytes of a zip entry's header before its name
SEAL = b"symsgd model, xxh3-64 "
DIGITS = 16
KINDS = "biufU"  # of numpy's types: numbers and text of fixed width
EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's first day, so that the same model makes the same bytes
CHUNK = 1 << 20


def write(path: str | os.PathLike[str], document: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Writes the file, whole or not at all."""
    text = json.dumps(document, indent=1, allow_nan=False).encode("ascii")
    with written_whole(path) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(zipfile.ZipInfo(DOCUMENT, EPOCH), text)
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            archive.comment = SEAL + b"0" * DIGITS
        end = file.seek(0, os.SEEK_END) - DIGITS
        file.seek(0)
        digest = _digest(file, end)
        file.seek(end)
        file.write(digest)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """The document and the arrays of a file, or a :class:`symsgd.errors.ModelError` that says what is wrong with it."""
    with open(path, "rb") as file:
        _check_seal(file, path)
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                    raise ValueError("it is compressed, and a small file could become a large one")
                document = json.loads(archive.read(DOCUMENT))
                if not isinstance(document, dict):
                    raise ValueError(f"{DOCUMENT} is not an object")
                names = {entry.filename.removesuffix(".npy") for entry in entries if entry.filename != DOCUMENT}
                arrays = {name: _array(archive, f"{name}.npy") for name in names}
        except OSError:
            raise
        except Exception as error:  # sealed by somebody else: zipfile, json and numpy each have errors of their own
            raise ModelError(path, f"is not made as a symsgd model is: {error}") from error
    return document, arrays


def _digest(file: IO[bytes], length: int) -> bytes:
    """The checksum of the next ``length`` bytes."""
    checksum = xxhash.xxh3_64()
    while length > 0 and (chunk := file.read(min(length, CHUNK))):
        checksum.update(chunk)
        length -= len(chunk)
    digits: str = checksum.hexdigest()
    return digits.encode("ascii")


def _check_seal(file: IO[bytes], path: str | os.PathLike[str]) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(NAME_AT + len(DOCUMENT))
    if size == 0:
        raise ModelError(path, "is empty")
    file.seek(max(0, size - len(SEAL) - DIGITS))
    tail = file.read()
    if not tail.startswith(SEAL):
        if head.startswith(BEGINNING) and head.endswith(DOCUMENT.encode("ascii")):
            raise ModelError(path, f"begins as a symsgd model and does not end as one: cut short, at {size:,} bytes?")
        raise ModelError(path, "is not a symsgd model")
    file.seek(0)
    if _digest(file, size - DIGITS) != tail[-DIGITS:]:
        raise ModelError(path, "is damaged: its checksum does not match")
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
