"""Feature hashing: names become column numbers without a table of names (Weinberger et al. 2009).

A name's MurmurHash3 h, as a signed 32-bit number, gives the slot |h| mod 2^bits and the sign of h for the value, so
that what collides cancels on average. These are the slots and signs of scikit-learn's FeatureHasher.

Two names in one slot share a weight. How often that happens is counted exactly, and in bounded memory: beside every
slot stands a second hash of the first name it was given to, and another name in that slot shows itself by another
second hash (but for one in 2^32). Of wider tables the first 2^22 slots are watched and stand for the rest: hashes are
uniform.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd._choices import check_count

Array = npt.NDArray[Any]

LARGEST_BITS = 30  # column numbers stay below 2^31
WATCHED_SLOTS = 1 << 22
LONG_NAME = 1024  # bytes; a round of the vectorised loop is four bytes of every name


def murmur3(data: Array, starts: Array, seed: int = 0) -> npt.NDArray[np.uint32]:
    """MurmurHash3 (x86, 32 bits) of many strings: string i is the bytes ``starts[i]`` to ``starts[i + 1]`` of data."""
    from sklearn.utils import murmurhash3_32  # here: it takes longer than all the rest of symsgd.data

    begins, lengths = starts[:-1].astype(np.int64), np.diff(starts)
    by_length = np.argsort(-lengths, kind="stable")
    begins, lengths = begins[by_length], lengths[by_length]
    n_long = int(np.searchsorted(-lengths, -LONG_NAME))  # strings with more bytes than that come first
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    words = np.ndarray(len(padded) - 3, np.dtype("<u4"), padded, strides=(1,))  # the four bytes from each byte on

    hashes = np.full(len(lengths), seed, np.uint32)
    for i in range(n_long):
        name = data[begins[i] : begins[i] + lengths[i]].tobytes()
        hashes[i] = murmurhash3_32(name, seed=seed, positive=True)
    begins, lengths, short = begins[n_long:], lengths[n_long:], hashes[n_long:]
    for offset in range(0, int(lengths[0]) - 3 if len(lengths) else 0, 4):
        active = int(np.searchsorted(-lengths, -(offset + 4), side="right"))
        h = short[:active]
        h ^= _scrambled(words[begins[:active] + offset])
        h[:] = _rotated(h, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    tail_masks = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
    short ^= _scrambled(words[begins + (lengths & ~3)] & tail_masks[lengths & 3])
    _finish(short, lengths)

    in_order = np.empty_like(hashes)
    in_order[by_length] = hashes
    return in_order


def _rotated(x: Array, bits: int) -> Array:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def _scrambled(x: Array) -> Array:
    return _rotated(x * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _finish(h: Array, lengths: Array) -> None:
    h ^= lengths.astype(np.uint32)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)


def check_bits(bits: object) -> int:
    """``bits`` as the width of a hash table: 2^bits columns."""
    return check_count("hash_bits", bits, at_most=LARGEST_BITS)


@dataclass(frozen=True)
class Collisions:
    """How many slots hold a name, and how many more than one; estimates where not all slots are watched."""

    width: int
    used: int
    shared: int
    exact: bool

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        share = self.shared / self.used if self.used else 0.0
        return (
            f"hashing into {self.width:,} columns: {about}{self.used:,} are used, {about}{self.shared:,} of them "
            f"({share:.1%}) by more than one feature"
        )


class Hasher:
    """Names to slots and signs; it watches for collisions as it goes."""

    def __init__(self, bits: int) -> None:
        self.bits = check_bits(bits)
        self._marks = np.zeros(min(1 << bits, WATCHED_SLOTS), np.uint32)  # 0: nobody's
        self._shared = np.zeros(len(self._marks), bool)

    def __call__(self, data: Array, starts: Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
        """The slot and the sign of every name; names as :func:`murmur3` takes them."""
        signed = murmur3(data, starts).view(np.int32).astype(np.int64)
        slots = (np.abs(signed) & ((1 << self.bits) - 1)).astype(np.int32)
        self._watch(slots, murmur3(data, starts, seed=1))
        return slots, np.where(signed < 0, -1, 1).astype(np.int8)

    def _watch(self, slots: Array, marks: Array) -> None:
        if self.watches_some:
            watched = slots < len(self._marks)
            slots, marks = slots[watched], marks[watched]
        marks = np.maximum(marks, np.uint32(1))
        free = self._marks[slots] == 0
        self._marks[slots[free]] = marks[free]
        self._shared[slots[self._marks[slots] != marks]] = True

    @property
    def watches_some(self) -> bool:
        """Whether some slots are watched and stand for all."""
        return len(self._marks) < 1 << self.bits

    @property
    def collisions(self) -> Collisions:
        """What was seen until now."""
        scale = (1 << self.bits) // len(self._marks)
        used, shared = int(np.count_nonzero(self._marks)), int(np.count_nonzero(self._shared))
        return Collisions(1 << self.bits, scale * used, scale * shared, not self.watches_some)
