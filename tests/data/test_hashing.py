"""Feature hashing: MurmurHash3 in bulk, scikit-learn's slots and signs, collisions counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

from symsgd.data import hashing
from symsgd.data.hashing import LONG_NAME, Hasher, murmur3


def buffers(names: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *map(len, names)])
    return np.frombuffer(b"".join(names), np.uint8), starts


@given(st.lists(st.binary(max_size=40)), st.integers(0, 2**32 - 1))
@example([b"x" * length for length in range(20)], 0)
@example([b"", b"y" * LONG_NAME, b"y" * (LONG_NAME + 1), b"z" * (3 * LONG_NAME + 2), b"abc"], 1)
def test_many_strings_hash_as_one_by_one(names: list[bytes], seed: int) -> None:
    expected = [murmurhash3_32(name, seed=seed, positive=True) for name in names]
    assert murmur3(*buffers(names), seed=seed).tolist() == expected


def test_strings_may_lie_anywhere_in_a_buffer() -> None:
    data = np.frombuffer(b"....cat.dog", np.uint8)
    assert murmur3(data, np.array([4, 7])).tolist() == [murmurhash3_32(b"cat", positive=True)]
    assert murmur3(data, np.array([8, 11])).tolist() == [murmurhash3_32(b"dog", positive=True)]


@pytest.mark.parametrize("bits", [1, 4, 18, 30])
def test_slots_and_signs_are_those_of_scikit_learn(bits: int) -> None:
    names = [f"city=place {i}" for i in range(500)]
    slots, signs = Hasher(bits)(*buffers([name.encode() for name in names]))
    hashed = FeatureHasher(1 << bits, input_type="string").transform([[name] for name in names])
    np.testing.assert_array_equal(slots, hashed.indices)
    np.testing.assert_array_equal(signs, hashed.data)


@given(st.lists(st.sets(st.integers(0, 200)), max_size=8), st.integers(1, 7))
def test_collisions_are_counted_exactly_however_names_arrive(batches: list[set[int]], bits: int) -> None:
    hasher, seen = Hasher(bits), set()
    for batch in batches:
        names = [b"%d" % number for number in batch]
        if names:
            hasher(*buffers(names))
        seen |= set(names)
    slots = [abs(murmurhash3_32(name)) % (1 << bits) for name in seen]
    _, counts = np.unique(slots, return_counts=True)
    found = hasher.collisions
    assert (found.used, found.shared, found.exact) == (len(counts), np.count_nonzero(counts > 1), True)


def test_some_slots_stand_for_all_of_a_wide_table(monkeypatch: pytest.MonkeyPatch) -> None:
    names = buffers([b"%d" % number for number in range(20_000)])
    exact = Hasher(14)
    exact(*names)
    monkeypatch.setattr(hashing, "WATCHED_SLOTS", 1 << 12)
    estimate = Hasher(14)
    estimate(*names)
    assert not estimate.collisions.exact
    assert estimate.collisions.used == pytest.approx(exact.collisions.used, rel=0.05)
    assert estimate.collisions.shared == pytest.approx(exact.collisions.shared, rel=0.1)
    assert "about" in str(estimate.collisions)


@pytest.mark.parametrize("bits", [0, 31, 2.5, "18"])
def test_widths_that_make_no_sense_are_refused(bits: object) -> None:
    with pytest.raises(ValueError, match="hash_bits"):
        Hasher(bits)  # type: ignore[arg-type]
