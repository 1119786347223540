"""Rows in a mapped file are trained as those in memory are, and no copy of them is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import symsgd
from symsgd import SGDClassifier, schedules, train
from symsgd.combiners import Curvature, Exact, Projected
from symsgd.data import Dataset, Schema
from symsgd.errors import StoreError
from symsgd.inputs import is_mapped
from symsgd.strategies import AllReduce, Async, Averaging, MapReduce, Sequential

ROWS, FEATURES = 20_011, 400

# of these the same bits are expected; Async on one thread has nobody to race with
STRATEGIES = [
    (Sequential(), 1),
    (Averaging(), 3),
    (AllReduce(), 2),
    (MapReduce(Projected(k=7), block_size=300), 2),
    (MapReduce(Curvature(), block_size="auto"), 3),
    (Async(Projected(k=7), block_size=100), 1),
    (Async(Exact(), block_size=100, frequent_threshold=0.3), 1),
]


def rows(dense: bool) -> Any:
    rng = np.random.default_rng(0)
    if dense:
        return rng.standard_normal((ROWS, 20)).astype(np.float32)
    X = sp.random(ROWS, FEATURES, 0.02, format="csr", dtype=np.float32, rng=rng)
    X.data -= 0.5
    return X


def labels(X: Any) -> Any:
    return np.where(X @ np.random.default_rng(1).standard_normal(X.shape[1]) > 0, 1.0, -1.0)


def mapped(array: Any, path: Path) -> Any:
    """The array, read only, in a file."""
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def mapped_rows(X: Any, folder: Path) -> Any:
    if not sp.issparse(X):
        return mapped(X, folder / "values.npy")
    matrix = sp.csr_matrix(X.shape, dtype=X.dtype)
    matrix.data, matrix.indices = mapped(X.data, folder / "values.npy"), mapped(X.indices, folder / "indices.npy")
    matrix.indptr = mapped(X.indptr, folder / "starts.npy")
    return matrix


def test_what_is_mapped(tmp_path: Path) -> None:
    array = np.arange(10.0)
    file = mapped(array, tmp_path / "array.npy")
    assert is_mapped(file)
    assert is_mapped(file[2:].reshape(4, 2))
    assert not is_mapped(array)
    assert not is_mapped(np.array(file))


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("fits", [True, False], ids=["fits", "larger"])
@pytest.mark.parametrize(("strategy", "n_threads"), STRATEGIES, ids=lambda case: getattr(case, "name", str(case)))
def test_the_same_bits_as_in_memory(
    strategy: Any, n_threads: int, fits: bool, dense: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rows(dense)
    y = labels(X)
    choices = {"strategy": strategy, "n_threads": n_threads, "n_passes": 3, "schedule": schedules.Constant(0.05)}
    expected = train(X, y, **choices)
    if not fits:  # rows are asked for in the order of the pass
        monkeypatch.setattr(symsgd.training, "available_memory", lambda: 1_000_000)
    result = train(mapped_rows(X, tmp_path), mapped(y, tmp_path / "y.npy"), **choices)
    assert_array_equal(result.coef, expected.coef)
    assert_array_equal(result.intercept, expected.intercept)


@pytest.mark.parametrize("shuffle", [True, "full", "blocks", False])
def test_every_order_of_a_file_larger_than_the_memory(
    shuffle: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rows(False)
    y = labels(X)
    monkeypatch.setattr(symsgd.training, "available_memory", lambda: 1_000_000)
    choices = {"strategy": "sequential", "n_passes": 2, "shuffle": shuffle}
    assert_array_equal(train(mapped_rows(X, tmp_path), y, **choices).coef, train(X, y, **choices).coef)


MEMORY = """
import sys, threading, time
from pathlib import Path
import numpy as np, scipy.sparse as sp
from symsgd import schedules, train

def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) / 1024

folder = Path(sys.argv[1])
load = lambda name: np.load(folder / f"{name}.npy", mmap_mode="r")
X = sp.csr_matrix((len(load("y")), 50_000), dtype=np.float32)
X.data, X.indices, X.indptr = load("values"), load("indices"), load("starts")
y = load("y")
tiny = sp.csr_matrix(np.ones((40, 3), np.float32))
train(tiny, np.arange(40) % 2, strategy=sys.argv[2], n_threads=2, n_passes=1)  # what any training takes
before = most = anonymous()
ended = False

def watch():
    global most
    while not ended:
        most = max(most, anonymous())
        time.sleep(0.002)

watching = threading.Thread(target=watch)
watching.start()
train(X, y, strategy=sys.argv[2], n_threads=2, n_passes=2, schedule=schedules.Constant(0.05))
ended = True
watching.join()
print(most - before, (X.data.nbytes + X.indices.nbytes) / 2**20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("strategy", ["auto", "sequential", "hogwild", "async-symsgd", "mr-symsgd"])
def test_no_copy_of_the_rows_is_kept(strategy: str, tmp_path: Path) -> None:
    n_rows, entries = 100_000, 80
    rng = np.random.default_rng(0)
    np.save(tmp_path / "indices.npy", np.sort(rng.integers(0, 50_000, (n_rows, entries)).astype(np.int32)).ravel())
    np.save(tmp_path / "values.npy", np.ones(n_rows * entries, np.float32))
    np.save(tmp_path / "starts.npy", np.arange(n_rows + 1) * entries)
    np.save(tmp_path / "y.npy", rng.integers(0, 2, n_rows).astype(np.float64))
    command = [sys.executable, "-c", MEMORY, str(tmp_path), strategy]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kept, size = map(float, printed.split())
    assert kept < size / 4


# Stores


def stored(X: Any, y: Any, path: Path, sample_weight: Any = None) -> Any:
    symsgd.data.convert(Dataset(X, y, sample_weight, Schema("matrix", X.shape[1])), path)
    return symsgd.data.open(path)


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize(("strategy", "n_threads"), STRATEGIES, ids=lambda case: getattr(case, "name", str(case)))
def test_a_store_is_trained_as_its_rows_are(strategy: Any, n_threads: int, dense: bool, tmp_path: Path) -> None:
    X = rows(dense)
    y = labels(X)
    choices = {"strategy": strategy, "n_threads": n_threads, "n_passes": 3, "schedule": schedules.Constant(0.05)}
    store = stored(X, y, tmp_path / "rows.store")
    result, expected = train(store, **choices), train(X, y, **choices)
    assert_array_equal(result.coef, expected.coef)
    assert_array_equal(result.decision(store), expected.decision(X))
    assert_array_equal(train(store.X, store.y, **choices).coef, expected.coef)


def test_a_store_has_targets_and_weights_of_its_own(tmp_path: Path) -> None:
    X = rows(True)
    y, weights = labels(X), np.random.default_rng(2).uniform(0, 2, ROWS)
    store = stored(X, y, tmp_path / "rows.store", weights)
    assert_array_equal(train(store, n_passes=1).coef, train(X, y, sample_weight=weights, n_passes=1).coef)
    ones = np.ones(ROWS)
    given = train(store, -y, sample_weight=ones, n_passes=1)
    assert_array_equal(given.coef, train(X, -y, sample_weight=ones, n_passes=1).coef)


def test_rows_without_labels_are_refused(tmp_path: Path) -> None:
    X = rows(True)
    y = labels(X)
    y[[3, 5]] = np.nan
    store = stored(X, y, tmp_path / "rows.store")
    with pytest.raises(ValueError, match="2 of its 20011 rows have no label"):
        train(store)
    train(store, loss="one_class", n_passes=1)


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
def test_a_damaged_store_is_not_trained(dense: bool, tmp_path: Path) -> None:
    X = rows(dense)
    path = tmp_path / "rows.store"
    stored(X, labels(X), path).close()
    values = X.data if sp.issparse(X) else X.ravel()
    content = bytearray(path.read_bytes())
    at = content.index(values[50:58].tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match="values"):
        train(symsgd.data.open(path))


def test_estimators_take_the_rows_of_a_store(tmp_path: Path) -> None:
    X = rows(False)
    y = labels(X)
    store = stored(X, y, tmp_path / "rows.store")
    ours = SGDClassifier(max_iter=3, tol=None, random_state=0).fit(store.X, store.y)
    assert_array_equal(ours.coef_, SGDClassifier(max_iter=3, tol=None, random_state=0).fit(X, y).coef_)
    assert_array_equal(ours.predict(store.X), ours.predict(X))
