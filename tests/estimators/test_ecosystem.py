"""Our estimators where scikit-learn's are used: frames, pipelines, searches, meta-estimators, pickles, threads."""

from __future__ import annotations

import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn.linear_model
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import (
    GridSearchCV,
    ShuffleSplit,
    StratifiedShuffleSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import symsgd
from symsgd import History, Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor
from symsgd.callbacks import Callback
from symsgd.threads import available_cores, resolve_threads

ESTIMATORS = [SGDClassifier, SGDRegressor, Perceptron, SGDOneClassSVM]
SUPERVISED = [SGDClassifier, SGDRegressor, Perceptron]
X, y = make_classification(400, 10, n_informative=6, n_classes=3, class_sep=3, n_clusters_per_class=1, random_state=0)
NAMES = [f"f{j}" for j in range(X.shape[1])]
FRAMES = [pd.DataFrame(X, columns=NAMES), pl.DataFrame(X, schema=NAMES)]


def new(estimator: type, **parameters: Any) -> Any:
    return estimator(**{"max_iter": 5, "tol": None, "random_state": 0, **parameters})


def scores(estimator: Any, rows: Any = X) -> np.ndarray:
    return estimator.decision_function(rows) if hasattr(estimator, "decision_function") else estimator.predict(rows)


# Frames


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars"])
def test_a_frame_fits_as_its_array_and_names_the_features(estimator: type, frame: Any) -> None:
    fitted = new(estimator).fit(frame, y)
    assert_array_equal(fitted.feature_names_in_, NAMES)
    assert_array_equal(scores(fitted, frame), scores(new(estimator).fit(X, y)))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars"])
def test_a_frame_with_other_names_is_refused_as_scikit_learn_does(estimator: type, frame: Any) -> None:
    other = frame.rename(columns={"f0": "g0"}) if isinstance(frame, pd.DataFrame) else frame.rename({"f0": "g0"})
    messages = []
    for kind in (estimator, getattr(sklearn.linear_model, estimator.__name__)):
        fitted = new(kind).fit(frame, y)
        with pytest.raises(ValueError, match="feature names should match") as raised:
            fitted.predict(other)
        messages.append(str(raised.value))
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            fitted.predict(X)
    assert messages[0] == messages[1]


@pytest.mark.parametrize("estimator", SUPERVISED)
def test_names_are_checked_by_partial_fit_and_in_an_evaluation_set(estimator: type) -> None:
    other = FRAMES[0].rename(columns={"f0": "g0"})
    fitted = new(estimator).fit(FRAMES[0], y)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.partial_fit(other, y)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.fit(FRAMES[0], y, eval_set=(other, y))


LABELS = {
    "strings": pd.Series(np.array(["c", "a", "b"])[y]),
    "categories": pd.Series(np.array(["c", "a", "b"])[y], dtype="category"),
    "nullable integers": pd.Series(y, dtype="Int64"),
    "objects": np.array(["c", "a", "b"], dtype=object)[y],
    "polars strings": pl.Series(np.array(["c", "a", "b"])[y].tolist()),
    "booleans": y > 0,
    "a column": pd.DataFrame({"y": y})["y"],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_come_back_as_scikit_learn_gives_them(labels: Any) -> None:
    ours = new(SGDClassifier).fit(X, labels)
    theirs = new(sklearn.linear_model.SGDClassifier).fit(X, labels)
    assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.classes_.dtype == theirs.classes_.dtype
    assert ours.predict(X).dtype == theirs.predict(X).dtype
    assert ours.score(X, labels) > 0.5


def test_sample_weights_from_a_series() -> None:
    weights = np.random.default_rng(0).random(len(y))
    expected = new(SGDClassifier).fit(X, y, sample_weight=weights).coef_
    for series in (pd.Series(weights), pl.Series(weights), weights.tolist()):
        assert_array_equal(new(SGDClassifier).fit(X, y, sample_weight=series).coef_, expected)


# Parameters, copies and pickles


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_can_be_read_set_and_cloned(estimator: type) -> None:
    theirs = getattr(sklearn.linear_model, estimator.__name__)().get_params()
    assert {name: value for name, value in estimator().get_params().items() if name in theirs} == theirs
    changed = new(estimator).set_params(max_iter=7, strategy=symsgd.strategies.Sequential(), n_jobs=2)
    copy = clone(changed.fit(X, y))
    assert copy.get_params() == changed.get_params()
    assert not hasattr(copy, "coef_")
    with pytest.raises(ValueError, match="Invalid parameter 'passes'"):
        estimator().set_params(passes=3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("average", [False, True])
def test_a_pickle_predicts_the_same_and_learns_on(estimator: type, average: bool) -> None:
    parameters = {} if estimator is Perceptron else {"average": average}
    fitted = new(estimator, **parameters).fit(X, y)
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(file)):
        assert_array_equal(scores(copy), scores(fitted))
        assert copy.result_.passes == fitted.result_.passes
        assert_array_equal(scores(copy.partial_fit(X, y)), scores(clone(fitted).fit(X, y).partial_fit(X, y)))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_pickle_is_hardly_larger_than_the_coefficients(estimator: type) -> None:
    wide = np.random.default_rng(0).standard_normal((30, 5000))
    fitted = new(estimator, max_iter=20).fit(wide, y[:30])
    assert len(pickle.dumps(fitted)) < fitted.coef_.nbytes + 8000
    sparse = new(estimator).fit(scipy.sparse.csr_matrix(wide * (np.arange(5000) < 50)), y[:30]).sparsify()
    assert len(pickle.dumps(sparse)) < 16000


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_model_mapped_from_disk_predicts_and_learns_on(estimator: type, tmp_path: Any) -> None:
    fitted = new(estimator).fit(X, y)
    joblib.dump(fitted, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    assert not mapped.coef_.flags.writeable
    assert_array_equal(scores(mapped), scores(fitted))
    assert_array_equal(mapped.partial_fit(X, y).coef_, fitted.partial_fit(X, y).coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_to_scikit_learn_and_back(estimator: type) -> None:
    fitted = new(estimator).fit(FRAMES[0], y)
    theirs = fitted.to_sklearn()
    assert type(theirs) is getattr(sklearn.linear_model, estimator.__name__)
    assert_allclose(scores(theirs, FRAMES[0]), scores(fitted, FRAMES[0]), rtol=1e-12, atol=1e-12)
    back = estimator.from_sklearn(theirs)
    assert_array_equal(scores(back, FRAMES[0]), scores(fitted, FRAMES[0]))
    assert back.get_params() == fitted.get_params()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_representations(estimator: type) -> None:
    assert repr(estimator(max_iter=5)) == f"{estimator.__name__}(max_iter=5)"
    for shown in (estimator(), new(estimator).fit(X, y), make_pipeline(StandardScaler(), estimator())):
        assert estimator.__name__ in shown._repr_html_()


# Sparse coefficients


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sparse_coefficients_predict_learn_on_and_become_dense_again(estimator: type) -> None:
    fitted = new(estimator).fit(X, y)
    expected, shape = scores(fitted), fitted.coef_.shape
    fitted.sparsify()
    assert scipy.sparse.issparse(fitted.coef_)
    assert_array_equal(scores(fitted), expected)
    assert_array_equal(scores(pickle.loads(pickle.dumps(fitted))), expected)
    assert fitted.densify().coef_.shape == shape
    assert_array_equal(scores(fitted), expected)
    assert_array_equal(fitted.sparsify().partial_fit(X, y).coef_, new(estimator).fit(X, y).partial_fit(X, y).coef_)


@pytest.mark.skipif("sparse_interface" not in get_config(), reason="scikit-learn has the choice from 1.9 on")
@pytest.mark.parametrize("interface", ["spmatrix", "sparray"])
def test_sparse_coefficients_are_of_the_kind_that_is_configured(interface: str) -> None:
    with config_context(sparse_interface=interface):
        coef = new(SGDClassifier).fit(X, y).sparsify().coef_
    assert scipy.sparse.isspmatrix(coef) == (interface == "spmatrix")


def test_select_from_model_keeps_what_l1_left() -> None:
    noise = np.random.default_rng(0).standard_normal((len(y), 30))
    wide = np.hstack([X, noise])
    selector = SelectFromModel(new(SGDClassifier, penalty="l1", alpha=0.05, max_iter=30)).fit(wide, y)
    kept = np.abs(selector.estimator_.coef_).max(0) > 1e-5
    assert 0 < kept.sum() < wide.shape[1]
    assert_array_equal(selector.get_support(), kept)
    assert selector.transform(wide).shape == (len(y), kept.sum())


# Meta-estimators and searches


def test_pipeline_with_a_scaler() -> None:
    piped = make_pipeline(StandardScaler(), new(SGDClassifier, loss="log_loss", max_iter=20)).fit(X * 1000, y)
    assert piped.score(X * 1000, y) > 0.6
    assert_allclose(piped.predict_proba(X * 1000).sum(1), 1)
    with config_context(transform_output="pandas"):
        assert_array_equal(piped.fit(FRAMES[0], y)[-1].feature_names_in_, NAMES)


def test_grid_search_in_processes_uses_one_thread_in_each() -> None:
    def threads_of_the_worker(estimator: Any, rows: Any, labels: Any) -> dict[str, float]:
        return {"accuracy": estimator.score(rows, labels), "threads": resolve_threads(None)}

    grid = {"alpha": [1e-4, 1e-2], "strategy": ["auto", symsgd.strategies.Sequential()]}
    options: dict[str, Any] = {"cv": 2, "scoring": threads_of_the_worker, "refit": "accuracy"}
    search = GridSearchCV(new(SGDClassifier), grid, n_jobs=2, **options).fit(X, y)
    assert (search.cv_results_["mean_test_threads"] == 1).all()
    here = GridSearchCV(new(SGDClassifier), grid, n_jobs=1, **options).fit(X, y)
    assert_array_equal(search.cv_results_["mean_test_accuracy"], here.cv_results_["mean_test_accuracy"])
    assert_array_equal(search.best_estimator_.coef_, here.best_estimator_.coef_)


@pytest.mark.parametrize("estimator", SUPERVISED)
def test_cross_validation_in_threads_equals_one_after_the_other(estimator: type) -> None:
    with joblib.parallel_config(backend="threading"):
        together = cross_val_score(new(estimator), X, y, cv=4, n_jobs=2)
        assert joblib.Parallel(2)(joblib.delayed(resolve_threads)(None) for _ in range(2)) == [1, 1]
    assert_array_equal(together, cross_val_score(new(estimator), X, y, cv=4))


@pytest.mark.parametrize("estimator", [SGDClassifier, Perceptron])
def test_calibration(estimator: type) -> None:
    calibrated = CalibratedClassifierCV(new(estimator), cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(y), 3)
    assert calibrated.score(X, y) > 0.6


@pytest.mark.parametrize("estimator", [SGDClassifier, Perceptron])
def test_one_vs_rest_and_several_outputs(estimator: type) -> None:
    one_vs_rest = OneVsRestClassifier(new(estimator)).fit(X, y)
    for c, member in enumerate(one_vs_rest.estimators_):
        assert_array_equal(member.coef_, new(estimator).fit(X, (y == c).astype(int)).coef_)
    several = MultiOutputClassifier(new(estimator)).fit(X, np.column_stack([y, y > 0]))
    assert_array_equal(several.predict(X)[:, 0], new(estimator).fit(X, y).predict(X))
    several.partial_fit(X, np.column_stack([y, y > 0]))


def test_sample_weights_are_routed() -> None:
    weights = np.random.default_rng(0).random(len(y))
    with config_context(enable_metadata_routing=True):
        asking = new(SGDClassifier).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asking)
        found = cross_validate(
            piped, X, y, params={"sample_weight": weights}, cv=2, return_indices=True, return_estimator=True
        )
    first = found["indices"]["train"][0]
    scaled = StandardScaler().fit_transform(X[first])
    expected = new(SGDClassifier).fit(scaled, y[first], sample_weight=weights[first])
    assert_array_equal(found["estimator"][0][-1].coef_, expected.coef_)


# What is ours


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_partial_fit_changes_the_coefficients_where_they_are_and_fit_does_not(estimator: type) -> None:
    class Keep(Callback):
        results: ClassVar[list[Any]] = []

        def on_end(self, result: symsgd.Result | None) -> None:
            self.results.append((result, result.coef.copy()))

    fitted = new(estimator, callbacks=Keep()).fit(X, y)
    coef, before = fitted.coef_, fitted.coef_.copy()
    assert fitted.partial_fit(X, y).coef_ is coef
    assert (coef != before).any()
    after = coef.copy()
    fitted.fit(X, y)
    assert_array_equal(coef, after)
    assert_array_equal(fitted.coef_, before)
    for result, values in Keep.results:
        assert_array_equal(result.coef, values)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_unknown_strategy_lists_those_there_are(estimator: type) -> None:
    known = list(symsgd.strategies.STRATEGIES)
    with pytest.raises(ValueError, match="strategy='nonsense' is not known") as raised:
        new(estimator, strategy="nonsense").fit(X, y)
    assert all(repr(name) in str(raised.value) for name in known)
    with pytest.raises(ValueError, match="'strategy' parameter"):
        new(estimator, strategy=3).fit(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("strategy", ["sequential", symsgd.strategies.Sequential(), symsgd.strategies.Auto()])
def test_sequential_equals_auto_on_small_data(estimator: type, strategy: Any) -> None:
    auto = new(estimator).fit(X, y)
    assert auto.result_.strategy.startswith("sequential")
    assert_array_equal(new(estimator, strategy=strategy).fit(X, y).coef_, auto.coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
def test_the_answer_does_not_depend_on_n_jobs(estimator: type, n_jobs: int) -> None:
    fitted = new(estimator, n_jobs=n_jobs).fit(X, y)
    one = new(estimator, n_jobs=1).fit(X, y)
    assert_array_equal(fitted.coef_, one.coef_)
    assert_array_equal(scores(fitted), scores(one))


def test_n_jobs_counts_as_in_joblib() -> None:
    cores = available_cores()
    assert resolve_threads(-1) == cores
    assert resolve_threads(-2) == max(1, cores - 1)
    assert resolve_threads(3) == 3
    for wrong in (0, True):
        with pytest.raises(ValueError, match="n_jobs"):
            new(SGDClassifier, n_jobs=wrong).fit(X, y)


@pytest.mark.parametrize("variable", ["SYMSGD_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_environment_limits_the_threads(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    assert resolve_threads(None) == 1


@pytest.mark.parametrize("estimator", SUPERVISED)
@pytest.mark.parametrize("frame", [None, *FRAMES], ids=["array", "pandas", "polars"])
def test_the_last_score_of_the_evaluation_set_is_the_score_of_the_model(estimator: type, frame: Any) -> None:
    rows = X if frame is None else frame
    history = History()
    fitted = new(estimator, callbacks=history).fit(rows[:300], y[:300], eval_set=(rows[300:], y[300:]))
    assert len(history.validation_scores) == 5
    assert history.validation_scores[-1] == pytest.approx(fitted.score(rows[300:], y[300:]), abs=1e-12)
    assert fitted.result_.passes == history.records


@pytest.mark.parametrize("estimator", [SGDClassifier, SGDRegressor])
@pytest.mark.parametrize("average", [True, 700])
def test_the_evaluation_set_is_scored_by_the_averaged_model(estimator: type, average: int) -> None:
    history = History()
    fitted = new(estimator, average=average, callbacks=history).fit(X, y, eval_set=(X, y))
    assert history.validation_scores[-1] == pytest.approx(fitted.score(X, y), abs=1e-12)
    assert None not in history.validation_scores


@pytest.mark.parametrize(
    ("estimator", "labels", "message"),
    [
        (SGDClassifier, y + 1, r"eval_set\[1\] contains the label 3, which is not one of the classes \[0, 1, 2\]"),
        (SGDClassifier, y.astype(str), r"eval_set\[1\] contains the label '\d'"),
        (SGDClassifier, y[:9], r"eval_set\[1\] has 9 targets, but there are 400 rows"),
        (SGDRegressor, y * np.nan, r"eval_set\[1\] contains NaN"),
        (SGDRegressor, ["a"] * len(y), r"eval_set\[1\] has dtype <U1"),
    ],
)
def test_an_evaluation_set_that_cannot_be_scored_is_refused(estimator: type, labels: Any, message: str) -> None:
    fresh = new(estimator)
    with pytest.raises(ValueError, match=message):
        fresh.fit(X, y, eval_set=(X, labels))
    with pytest.raises(ValueError, match="eval_set must be one pair"):
        fresh.fit(X, y, eval_set=[(X, y)])
    assert not hasattr(fresh, "coef_")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_callbacks_see_every_pass_and_stop_the_fit(estimator: type) -> None:
    class StopAtThree(Callback):
        ended = None

        def on_pass(self, record: symsgd.PassRecord) -> bool:
            return record.number == 3

        def on_end(self, result: symsgd.Result | None) -> None:
            self.ended = result

    stop, seen = StopAtThree(), []
    fitted = new(estimator, callbacks=[stop, lambda record: seen.append(record.number)]).fit(X, y)
    assert seen == [1, 2, 3]
    assert fitted.n_iter_ == 3
    assert stop.ended is not None
    assert_array_equal(fitted.coef_, new(estimator, max_iter=3).fit(X, y).coef_)


@pytest.mark.parametrize(
    ("estimator", "splitter"), [(SGDClassifier, StratifiedShuffleSplit), (SGDRegressor, ShuffleSplit)]
)
def test_early_stopping_trains_on_the_rows_that_scikit_learn_trains_on(estimator: type, splitter: Any) -> None:
    _, held_out = next(splitter(test_size=0.2, random_state=0).split(X, y))
    changed = X.copy()
    changed[held_out] += 100
    parameters = {"early_stopping": True, "validation_fraction": 0.2}
    expected = new(estimator, **parameters).fit(X, y).coef_
    assert_array_equal(new(estimator, **parameters).fit(changed, y).coef_, expected)
    changed = X + 1
    changed[held_out] = X[held_out]
    assert (new(estimator, **parameters).fit(changed, y).coef_ != expected).any()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fits_and_predictions_from_several_threads(estimator: type) -> None:
    seeds = range(16)
    expected = [new(estimator, random_state=seed).fit(X, y).coef_ for seed in seeds]
    shared = new(estimator).fit(X, y)
    with ThreadPoolExecutor(8) as pool:
        fitted = list(pool.map(lambda seed: new(estimator, random_state=seed).fit(X, y).coef_, seeds))
        predicted = list(pool.map(lambda _: scores(shared), seeds))
    assert_array_equal(fitted, expected)
    assert_array_equal(predicted, [scores(shared)] * len(seeds))
