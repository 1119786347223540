"""The estimators on Dask collections, and what they refuse before any work."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone

import symsgd
from dask_cases import dense_rows, sparse_rows, write_store
from symsgd.combiners import Curvature, Projected
from symsgd.dask import SGDClassifier, SGDRegressor, train
from symsgd.strategies import MapReduce

SETTINGS: dict[str, Any] = {
    "loss": "log_loss", "learning_rate": "constant", "eta0": 0.05, "tol": None, "max_iter": 3, "random_state": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any, Any, Any]:
    X, y = dense_rows(3_000)
    labels = np.where(y > 0, "yes", "no")
    return X, labels, da.from_array(X, chunks=(900, 7)), da.from_array(labels, chunks=700)


def test_a_classifier(client: Any, rows: tuple[Any, Any, Any, Any]) -> None:
    X, y, lazy, lazy_y = rows
    model = SGDClassifier(**SETTINGS).fit(lazy, lazy_y, eval_set=(lazy, lazy_y))
    own = symsgd.SGDClassifier(**SETTINGS).fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.coef_.shape == own.coef_.shape
    assert (model.n_features_in_, model.n_iter_, model.t_) == (12, 3, 9_001)
    assert np.linalg.norm(model.coef_ - own.coef_) < 0.1 * np.linalg.norm(own.coef_)
    for name in ("decision_function", "predict", "predict_proba"):
        there = getattr(model, name)(lazy)
        assert isinstance(there, da.Array)
        here = getattr(model, name)(X)
        assert there.shape == here.shape
        assert there.dtype.kind == here.dtype.kind
        if here.dtype.kind == "f":
            np.testing.assert_allclose(there.compute(), here, rtol=1e-5, atol=1e-6)
        else:
            assert np.array_equal(there.compute(), here)
    weight = np.random.default_rng(0).uniform(size=len(y))
    assert model.score(lazy, lazy_y) == pytest.approx(model.score(X, y))
    assert model.score(lazy, lazy_y, da.from_array(weight, chunks=700)) == pytest.approx(model.score(X, y, weight))
    assert model.result_.passes[-1].validation_score == pytest.approx(model.score(X, y))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()
    before = model.coef_.copy()
    model.partial_fit(lazy, lazy_y)
    assert model.t_ == 12_001
    assert not np.array_equal(model.coef_, before)


def test_several_classes_balanced(client: Any, rows: tuple[Any, Any, Any, Any]) -> None:
    X, _, lazy, _ = rows
    y = np.digitize(X[:, 0], [-0.3, 0.5])
    model = SGDClassifier(**SETTINGS, class_weight="balanced").fit(lazy, da.from_array(y, chunks=900))
    assert model.predict_proba(lazy).shape == (3_000, 3)
    assert model.score(lazy, da.from_array(y, chunks=900)) == pytest.approx(model.score(X, y))
    assert model.score(X, y) > 0.7


def test_a_regressor_on_a_frame(client: Any, rows: tuple[Any, Any, Any, Any]) -> None:
    import dask.dataframe as dd
    import pandas as pd

    X = rows[0]
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(12)])
    y = X @ np.arange(12) + 1
    lazy = dd.from_pandas(frame.assign(y=y), npartitions=3)
    model = SGDRegressor(eta0=0.05, max_iter=5, tol=None, random_state=0).fit(lazy.drop(columns="y"), lazy["y"])
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.score(lazy.drop(columns="y"), lazy["y"]) == pytest.approx(model.score(frame, y), abs=1e-9)
    assert model.score(frame, y) > 0.9
    np.testing.assert_allclose(
        model.predict(lazy.drop(columns="y")).compute(), model.predict(frame), rtol=1e-4, atol=1e-4
    )


def test_warm_start_and_a_client_of_its_own(client: Any, rows: tuple[Any, Any, Any, Any]) -> None:
    _, _, lazy, lazy_y = rows
    model = SGDClassifier(**SETTINGS, warm_start=True)
    model.client = client
    first = model.fit(lazy, lazy_y).result_.passes[0].loss
    assert model.fit(lazy, lazy_y).result_.passes[0].loss < first
    assert "_client" not in pickle.loads(pickle.dumps(model)).__dict__


def test_what_is_refused_before_any_work(client: Any, rows: tuple[Any, Any, Any, Any], tmp_path: Path) -> None:
    X, y, lazy, lazy_y = rows
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"strategy": "hogwild"}, ValueError, "does not make sense across workers; accepted are 'auto'"),
        ({"strategy": MapReduce(Projected())}, ValueError, "does not make sense across workers"),
        ({"strategy": MapReduce(Curvature(refine=2), block_size=64)}, ValueError, "is not made across workers"),
        ({"strategy": "nonsense"}, ValueError, "strategy='nonsense' is not known"),
        ({"penalty": "l1"}, ValueError, "penalty='l1' does not work across workers"),
        ({"blocks": 0}, ValueError, "blocks=0 is not accepted; it must be an integer >= 1"),
        ({"n_threads": -1}, ValueError, "n_threads=-1 is not accepted"),
        ({"n_passes": 0}, ValueError, "n_passes=0 is not accepted"),
        ({"seed": -1}, ValueError, "seed=-1 is not accepted"),
        ({"shuffle": "windows"}, ValueError, "shuffle='windows' is not accepted"),
        ({"tol": -1.0}, ValueError, "tol=-1.0 is not accepted"),
        ({"schedule": "linear", "tol": 0.1}, ValueError, "does not go with schedule='linear'"),
        ({"checkpoint": tmp_path}, ValueError, "is a folder"),
        ({"init": 3}, TypeError, "init=3 is neither"),
    ]
    for options, kind, message in refused:
        with pytest.raises(kind, match=message):
            train(client, "there is no such store", **options)
    with pytest.raises(TypeError, match=r"must be a distributed\.Client"):
        train("tcp://scheduler", lazy, lazy_y)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"For rows in this process's memory there is symsgd\.train"):
        train(client, X, y)
    with pytest.raises(TypeError, match="y is a ndarray"):
        train(client, lazy, y)
    with pytest.raises(ValueError, match="y has 2999 values, but there are 3000 rows"):
        train(client, lazy, lazy_y[:-1])
    with pytest.raises(ValueError, match="y is missing"):
        train(client, lazy)
    with pytest.raises(ValueError, match="greater than one; got 1 class"):
        train(client, lazy, da.ones(3_000, chunks=900))
    with pytest.raises(ValueError, match="which is not one of the classes"):
        train(client, lazy, lazy_y, classes=["maybe", "no"])
    with pytest.raises(ValueError, match="NaN"):
        train(client, da.from_array(np.full((10, 2), np.nan), chunks=5), da.from_array(np.arange(10) % 2, chunks=5))
    with pytest.raises(ValueError, match="negative value -1"):
        train(client, lazy, lazy_y, sample_weight=-da.ones(3_000, chunks=900))
    with pytest.raises(ValueError, match="y contains NaN"):
        train(client, lazy, da.full(3_000, np.nan, chunks=900), loss="squared_error")
    with pytest.raises(ValueError, match="not accepted beside such X"):
        train(client, write_store(tmp_path / "rows.store", *sparse_rows(50)), lazy_y)
    with pytest.raises(ValueError, match="early_stopping=True does not work across workers"):
        SGDClassifier(early_stopping=True).fit(lazy, lazy_y)
    with pytest.raises(ValueError, match="lowers the step of each class"):
        train(client, lazy, da.from_array(np.arange(3_000) % 3, chunks=900), schedule="adaptive")
    with pytest.raises(ValueError, match=r"partition 1 of X has 3 features"):
        train(client, client.scatter([(np.eye(4), np.arange(4) % 2), (np.eye(3), np.arange(3) % 2)]))


def test_a_failed_fit_leaves_the_model_as_it_was(client: Any, rows: tuple[Any, Any, Any, Any]) -> None:
    _, _, lazy, lazy_y = rows
    model = SGDClassifier(**SETTINGS).fit(lazy, lazy_y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="greater than one"):
        model.fit(lazy, da.zeros(3_000, chunks=900))
    assert np.array_equal(model.coef_, before)
    assert model.classes_.tolist() == ["no", "yes"]
