"""What is saved is what is loaded: every bit, type and parameter, and a training that goes on goes on the same."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import symsgd
from model_cases import MODELS, RESULTS, F, fitted, labels, numbers, rows
from symsgd import losses, strategies
from symsgd.data import Schema


def assert_same(ours: Any, theirs: Any) -> None:
    """The same type, and the same bits in arrays."""
    assert type(ours) is type(theirs)
    if isinstance(ours, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert (ours == theirs).all() if ours.dtype == object else ours.tobytes() == theirs.tobytes()
    elif sp.issparse(ours):
        assert ours.shape == theirs.shape
        for part in ("data", "indices", "indptr"):
            assert_same(getattr(ours, part), getattr(theirs, part))
    elif isinstance(ours, symsgd.Result):
        for field in dataclasses.fields(ours):
            assert_same(getattr(ours, field.name), getattr(theirs, field.name))
    elif isinstance(ours, np.random.RandomState):
        assert all(np.array_equal(a, b) for a, b in zip(ours.get_state(), theirs.get_state(), strict=True))
    else:
        assert ours == theirs


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]()


def test_an_estimator_comes_back_as_it_was(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = symsgd.load(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.__dict__.keys() == model.__dict__.keys()
    for name, value in model.__dict__.items():
        if name == "callbacks":
            assert loaded.callbacks is None
        else:
            assert_same(value, loaded.__dict__[name])
    assert_same(model.predict(rows()), loaded.predict(rows()))
    if hasattr(model, "decision_function"):
        assert_same(model.decision_function(rows()), loaded.decision_function(rows()))


def test_training_goes_on_with_the_same_bits(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = symsgd.load(tmp_path / "model")
    y = model.classes_[np.arange(61) % len(model.classes_)] if hasattr(model, "classes_") else numbers()
    X = rows(dtype=model.coef_.dtype, seed=7)
    for _ in range(2):
        model.partial_fit(X, y)
        loaded.partial_fit(X, y)
        assert_same(model.coef_, loaded.coef_)
        assert_same(model.t_, loaded.t_)
    for own in (model, loaded):
        own.set_params(warm_start=True).fit(X, y)
    assert_same(model.coef_, loaded.coef_)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_comes_back_as_it_was_and_trains_on(name: str, tmp_path: Path) -> None:
    result = RESULTS[name]()
    symsgd.save(result, tmp_path / "model")
    loaded = symsgd.load(tmp_path / "model")
    assert_same(result, loaded)
    assert loaded.passes == result.passes
    if name == "averaged":
        again = [symsgd.train(rows(), labels(0, 1, 2), n_passes=2, average=True, init=r) for r in (result, loaded)]
        for part in ("coef", "average_coef", "intercept"):
            assert_same(getattr(again[0], part), getattr(again[1], part))


def test_the_same_model_makes_the_same_bytes(tmp_path: Path) -> None:
    model = MODELS["averaged"]()
    for name in "ab":
        model.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    symsgd.load(tmp_path / "a").save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "c").read_bytes()


def test_an_array_that_two_attributes_share_is_written_once_and_shared_again(tmp_path: Path) -> None:
    model = MODELS["averaged"]()
    model.save(tmp_path / "model")
    loaded = symsgd.load(tmp_path / "model")
    assert np.shares_memory(model.coef_, model._average_coef)
    assert np.shares_memory(loaded.coef_, loaded._average_coef)
    assert np.shares_memory(loaded.coef_, loaded.result_.coef)
    assert "_average_coef" not in np.load(tmp_path / "model").files


def test_feature_names_and_labels_of_pandas(tmp_path: Path) -> None:
    names = [f"column {i}" for i in range(F)]
    frame = pd.DataFrame(rows(), columns=names)
    model = fitted(symsgd.SGDClassifier, pd.Series(labels("no", "yes"), dtype=object), frame)
    model.classes_ = model.classes_.astype(object)  # as estimators from elsewhere have them
    model.save(tmp_path / "model")
    loaded = symsgd.load(tmp_path / "model")
    assert_same(model.feature_names_in_, loaded.feature_names_in_)
    assert_same(model.predict(frame), loaded.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[names[::-1]])


def test_a_schema_is_kept_until_the_next_fit(tmp_path: Path) -> None:
    schema = Schema("svmlight", F, None, ("no", "yes"), {"base": 1})
    model = MODELS["two classes"]()
    model.save(tmp_path / "model", schema=schema)
    loaded = symsgd.load(tmp_path / "model")
    assert loaded.schema_ == schema
    loaded.save(tmp_path / "again")
    assert symsgd.load(tmp_path / "again").schema_ == schema
    loaded.partial_fit(rows(), labels(-1, 1))
    assert loaded.schema_ == schema
    loaded.fit(rows(), labels(-1, 1))
    assert not hasattr(loaded, "schema_")

    symsgd.save(RESULTS["numbers"](), tmp_path / "result", schema=schema)
    assert symsgd.load(tmp_path / "result").schema == schema


def test_a_schema_of_another_width_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"schema has 4 features, but the model has {F}"):
        symsgd.save(MODELS["regressor"](), tmp_path / "model", schema=Schema("svmlight", 4))
    assert list(tmp_path.iterdir()) == []


def test_a_model_from_scikit_learn_has_no_record(tmp_path: Path) -> None:
    theirs = sklearn.linear_model.SGDRegressor(max_iter=5, tol=None).fit(rows(), numbers())
    symsgd.SGDRegressor.from_sklearn(theirs).save(tmp_path / "model")
    loaded = symsgd.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.coef_, theirs.coef_)
    assert not hasattr(loaded, "result_")


def test_callbacks_leave_a_note(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "symsgd"):
        MODELS["a random state"]().save(tmp_path / "model")
    assert "callbacks are not saved" in caplog.text
    assert "callbacks were not saved" in str(np.load(tmp_path / "model")["model.json"])


class OwnStrategy(strategies.Sequential):
    pass


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: symsgd.SGDClassifier(), NotFittedError, "not fitted"),
        (lambda: make_pipeline(StandardScaler(), MODELS["regressor"]()), TypeError, "Pipeline .* save the last step"),
        (lambda: type("Mine", (symsgd.SGDRegressor,), {})(), TypeError, "a Mine is not saved"),
        (lambda: MODELS["regressor"]().set_params(strategy=OwnStrategy()), ValueError, "strategy=.* not one of symsgd"),
        (lambda: MODELS["regressor"]().set_params(alpha=1j), ValueError, "alpha=1j cannot be saved"),
        (lambda: MODELS["regressor"]().set_params(loss=losses), ValueError, "loss=<module .* cannot be saved"),
    ],
)
def test_what_cannot_be_saved_says_so_and_leaves_nothing(make: Any, error: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        symsgd.save(make(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_labels_of_mixed_types_are_refused(tmp_path: Path) -> None:
    model = MODELS["two classes"]()
    model.classes_ = np.array([b"no", b"yes"], dtype=object)
    with pytest.raises(ValueError, match="classes_ is an array of dtype object"):
        model.save(tmp_path / "model")


def test_loading_through_another_class_is_refused(tmp_path: Path) -> None:
    MODELS["regressor"]().save(tmp_path / "model")
    with pytest.raises(symsgd.ModelError, match="holds a model of the kind SGDRegressor, not SGDClassifier") as caught:
        symsgd.SGDClassifier.load(tmp_path / "model")
    assert caught.value.path == str(tmp_path / "model")
    assert isinstance(symsgd.SGDRegressor.load(tmp_path / "model"), symsgd.SGDRegressor)
    with pytest.raises(symsgd.ModelError, match="not Result"):
        symsgd.load(tmp_path / "model", symsgd.Result)


def test_a_missing_file_is_the_systems_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        symsgd.load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        symsgd.load(tmp_path)


def test_saving_replaces_a_model_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "model"
    MODELS["regressor"]().save(path)
    os.chmod(path, 0o640)
    (tmp_path / "link").symlink_to(path)
    MODELS["one class"]().save(tmp_path / "link")
    assert isinstance(symsgd.load(path), symsgd.SGDOneClassSVM)
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert {own.name for own in tmp_path.iterdir()} == {"model", "link"}
