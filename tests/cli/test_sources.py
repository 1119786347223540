"""Every command takes every format, and the next file is read as the first."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import symsgd
from cli_cases import F, N, good, rows, run, two_labels
from symsgd.cli.twin import NAMES


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return two_labels(tmp_path / "two.svm")


def coefficients(data: Path, model: Path, *options: Any) -> Any:
    good("train", data, "-o", model, "-q", *options)
    return symsgd.load(model).coef_


def test_a_store_trains_what_its_text_trains(two: Path, tmp_path: Path) -> None:
    outcome = good("convert", two, tmp_path / "two.store")
    assert f"{N} rows, {F} features" in outcome.out
    from_store = coefficients(tmp_path / "two.store", tmp_path / "a")
    np.testing.assert_array_equal(from_store, coefficients(two, tmp_path / "b"))
    assert symsgd.load(tmp_path / "a").schema_ == symsgd.load(tmp_path / "b").schema_
    assert good("predict", tmp_path / "a", two).out == good("predict", tmp_path / "a", tmp_path / "two.store").out
    scores = [good("evaluate", tmp_path / "a", own, "--json").out for own in (two, tmp_path / "two.store")]
    assert json.loads(scores[0])["scores"] == json.loads(scores[1])["scores"]
    assert json.loads(good("inspect", tmp_path / "two.store", "--json").out)["rows"] == N


def test_a_store_with_damaged_rows_is_refused(two: Path, tmp_path: Path) -> None:
    good("convert", two, tmp_path / "two.store")
    good("train", two, "-o", tmp_path / "known", "-q")
    whole = (tmp_path / "two.store").read_bytes()
    X = symsgd.data.open(tmp_path / "two.store").X
    for array in (X.data, X.indices, X.indptr):
        content = bytearray(whole)
        content[content.index(array[1:9].tobytes()) + 3] ^= 1
        (tmp_path / "two.store").write_bytes(content)
        for arguments in (
            ["train", tmp_path / "two.store", "-o", tmp_path / "model"],
            ["train", tmp_path / "two.store", "-o", tmp_path / "model", "--holdout", 0.2],
            ["predict", tmp_path / "known", tmp_path / "two.store", "-o", tmp_path / "model"],
            ["evaluate", tmp_path / "known", tmp_path / "two.store"],
            ["convert", tmp_path / "two.store", tmp_path / "model"],
        ):
            outcome = run(*arguments)
            assert outcome.code == 1
            assert "two.store: its array" in outcome.error
            assert "is damaged" in outcome.error
            assert not (tmp_path / "model").exists()


def test_appending_reads_as_the_store_was_read(two: Path, tmp_path: Path) -> None:
    good("convert", two, tmp_path / "store")
    (tmp_path / "more").write_text(f"1 2:1\n-1 {F + 5}:1\n")
    outcome = good("convert", tmp_path / "more", tmp_path / "store", "--append", "--json")
    told = json.loads(outcome.out)
    assert (told["rows"], told["features"]) == (N + 2, F)
    assert "ignored" in outcome.err


def test_converting_like_a_model(two: Path, tmp_path: Path) -> None:
    good("train", two, "-o", tmp_path / "model", "-q")
    (tmp_path / "narrow").write_text("1 2:1\n-1 3:1\n")
    good("convert", tmp_path / "narrow", tmp_path / "store", "--like", tmp_path / "model")
    predicted = [good("predict", tmp_path / "model", tmp_path / own).out for own in ("store", "narrow")]
    assert predicted[0] == predicted[1]
    good("convert", tmp_path / "narrow", tmp_path / "unlike.store")
    assert "has 3 features, and the model 20" in run("predict", tmp_path / "model", tmp_path / "unlike.store").error


def test_compressed_text(two: Path, tmp_path: Path) -> None:
    (tmp_path / "two.svm.gz").write_bytes(gzip.compress(two.read_bytes()))
    packed = coefficients(tmp_path / "two.svm.gz", tmp_path / "a")
    np.testing.assert_array_equal(packed, coefficients(two, tmp_path / "b"))


def test_a_file_of_scipy(tmp_path: Path) -> None:
    X, score = rows()
    np.savez(tmp_path / "dense.npz", X=X.toarray(), y=np.sign(score))
    good("train", tmp_path / "dense.npz", "-o", tmp_path / "model", "-q")
    assert len(good("predict", tmp_path / "model", tmp_path / "dense.npz").out.split()) == N
    sp.save_npz(tmp_path / "rows.npz", X)
    assert len(good("predict", tmp_path / "model", tmp_path / "rows.npz").out.split()) == N
    assert "rows.npz has no labels; an .npz" in run("train", tmp_path / "rows.npz", "-o", tmp_path / "other").error


def table(path: Path, n: int = 300, labelled: bool = True) -> Path:
    rng = np.random.default_rng(0)
    colours = rng.choice(["red", "green", "blue"], n)
    sizes = rng.standard_normal(n)
    bought = np.where((colours == "red") + sizes + 0.1 * rng.standard_normal(n) > 0.5, "yes", "no")
    header = "bought,colour,size,id" if labelled else "colour,size,id"
    cells = zip(bought, colours, [f"{own:.6g}" for own in sizes], map(str, range(n)), strict=True)
    lines = [",".join(own if labelled else own[1:]) for own in cells]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_a_table_with_names(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    options = ("--label", "bought", "--drop", "id", "--step-size", 0.5)
    outcome = good("train", table(tmp_path / "sold.csv"), "-o", tmp_path / "model", *options, "--holdout", 0.2)
    assert "held-out rows: AUC 0.9" in outcome.out
    model = symsgd.load(tmp_path / "model")
    assert model.classes_.tolist() == ["no", "yes"]
    shown = good("inspect", tmp_path / "model").out
    assert "classes: no, yes" in shown
    assert "colour" in shown
    assert "size" in shown

    unlabelled = table(tmp_path / "new.csv", labelled=False)
    predicted = good("predict", tmp_path / "model", unlabelled).out.split()
    truth = [line.split(",")[0] for line in (tmp_path / "sold.csv").read_text().splitlines()[1:]]
    assert np.mean([a == b for a, b in zip(predicted, truth, strict=True)]) > 0.9
    scores = json.loads(good("evaluate", tmp_path / "model", tmp_path / "sold.csv", "--json").out)["scores"]
    assert scores["accuracy"] == pytest.approx(np.mean([a == b for a, b in zip(predicted, truth, strict=True)]))
    assert "no label" in run("evaluate", tmp_path / "model", unlabelled).error

    good("train", tmp_path / "sold.csv", "-o", tmp_path / "more", "-i", tmp_path / "model", "-q")
    assert symsgd.load(tmp_path / "more").classes_.tolist() == ["no", "yes"]

    good("convert", tmp_path / "sold.csv", tmp_path / "sold.store", *options[:4])
    good("train", tmp_path / "sold.store", "-o", tmp_path / "stored", "-q", "--step-size", 0.5)
    assert symsgd.load(tmp_path / "stored").classes_.tolist() == ["no", "yes"]
    assert good("predict", tmp_path / "stored", unlabelled).out.split().count("yes") > 0


def test_predictions_do_not_look_at_labels_and_weights(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "old.csv").write_text("y,w,x\nyes,1,2\nno,2,-1\nyes,1,1.5\nno,1,0\n")
    (tmp_path / "new.csv").write_text("y,w,x\nperhaps,,2\n,x,-1\n")
    good("train", tmp_path / "old.csv", "-o", tmp_path / "model", "--label", "y", "--weight", "w", "-q")
    assert good("predict", tmp_path / "model", tmp_path / "new.csv").out.split() == ["yes", "no"]
    assert "line 3" in run("evaluate", tmp_path / "model", tmp_path / "new.csv").error


def test_text_of_vowpal_wabbit(tmp_path: Path) -> None:
    text = "".join(f"{label} |a {word}:0.5 |b z\n" for label, word in [(1, "x"), (-1, "y")] * 20)
    (tmp_path / "rows.vw").write_text(text)
    good("train", tmp_path / "rows.vw", "-o", tmp_path / "model", "--bits", 10, "--quadratic", "ab", "-q")
    model = symsgd.load(tmp_path / "model")
    assert model.n_features_in_ == 1024
    outcome = good("predict", tmp_path / "model", "-", given="|a x:0.5 |b z\n|a y:0.5 |b z\n")
    assert outcome.out.split() == ["1", "-1"]


def test_twins(tmp_path: Path) -> None:
    assert set(NAMES) == set(symsgd.data.TWINS)
    told = json.loads(good("twin", "rcv1", "-o", tmp_path / "rcv1.store", "--scale", 0.01, "--json").out)
    data = symsgd.data.twin("rcv1", scale=0.01)
    assert [own["rows"] for own in told] == [data.X.shape[0], data.X_test.shape[0]]
    good("train", tmp_path / "rcv1.store", "-o", tmp_path / "model", "-q", "--alpha", "1e-6")
    outcome = good("evaluate", tmp_path / "model", tmp_path / "rcv1.test.store", "--json")
    assert json.loads(outcome.out)["scores"]["accuracy"] > 0.8
    assert run("twin", "rcv2", "-o", tmp_path / "store").code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["train", "two.svm", "-o", "m", "--label", "y"],
            2,
            "--label is nothing that svmlight data could be read by",
        ),
        (["train", "two.store", "-o", "m", "--drop", "y"], 2, "--drop is nothing that store data could be read by"),
        (["train", "-", "-o", "m", "--format", "npz"], 2, "--format npz cannot be read from standard input"),
        (["train", "sold.csv", "-o", "m"], 1, "sold.csv has no labels; --label says which column has them"),
        (["convert", "sold.csv", "two.store", "--append"], 1, "sold.csv is read as csv, but must be like"),
        (["train", "sold.csv", "-o", "m", "--label", "price"], 1, "price"),
        (["train", "sold.csv", "-o", "m", "--label", "bought", "--loss", "huber"], 1, "the targets are names, as 'no'"),
        (["train", "two.svm", "-o", "m", "--format", "npz"], 1, "two.svm"),
        (["convert", "two.svm", "two.svm"], 1, "two.svm"),
        (["convert", "two.svm", "other", "--append", "--like", "m"], 2, "--append reads rows as the store has them"),
        (["convert", "nothing.svm", "other"], 1, "nothing.svm: No such file or directory"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], code: int, message: str, two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    symsgd.data.convert("two.svm", "two.store")
    table(tmp_path / "sold.csv")
    outcome = run(*arguments)
    assert outcome.code == code, outcome.err
    assert message in outcome.err
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "other").exists()
