"""What the targets share: a file of their own, and archives with checksums that fit."""

from __future__ import annotations

import atexit
import io
import zipfile
from pathlib import Path

import xxhash

from store_cases import quick_folder
from symsgd import archives
from symsgd.errors import DataError

_folder = quick_folder()
atexit.register(_folder.cleanup)
FOLDER = Path(_folder.name)


def members(path: Path) -> dict[str, bytes]:
    """Of a zip archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(kind: archives.Kind, data: bytes) -> bytes:
    """Bytes with the ending of such a file, as anybody can make it."""
    data += kind.seal
    return data + xxhash.xxh3_64(data).hexdigest().encode()


def archive(kind: archives.Kind, own: dict[str, bytes]) -> bytes:
    """An archive of these members, with a seal that fits."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as made:
        for name, data in own.items():
            made.writestr(name, data)
        made.comment = kind.seal + b"0" * archives.DIGITS
    return sealed(kind, content.getvalue()[: -archives.DIGITS - len(kind.seal)])


def named(refused: DataError, path: Path) -> bool:
    """False; an error that does not name the file is wrong."""
    assert refused.path == str(path), f"{refused} is about {path}"
    return False
