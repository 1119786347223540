"""The public sets that people compare linear models on, as the LIBSVM project keeps them.

Sets of the paper have the names of their twins. Rows and features are those that the project's pages state; a reader
holds a file to them. The pages have no checksums, so the first download is trusted and later ones must be like it: see
:mod:`symsgd.data.fetching`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
Task = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True)
class PublicFile:
    """A file of a set: where it lies below the project's address, its rows, and which member of an archive it is."""

    path: str
    n_rows: int
    member: str | None = None

    @property
    def file_name(self) -> str:
        """The name without the folders."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class PublicSet:
    """A public set; ``test`` is None where nobody has split it."""

    name: str
    task: Task
    n_features: int
    train: PublicFile
    test: PublicFile | None = None

    @property
    def page(self) -> str:
        """Where the set is described, with its authors and what may be done with it."""
        return f"{LIBSVM}/{self.train.path.partition('/')[0]}.html"


def _set(name: str, n_features: int, train: tuple[str, int], test: tuple[str, int] | None = None) -> PublicSet:
    task: Task = "binary"
    for kind in ("multiclass", "regression"):
        if train[0].startswith(kind):
            task = kind
    return PublicSet(name, task, n_features, PublicFile(*train), None if test is None else PublicFile(*test))


_CRITEO = "binary/criteo.kaggle2014.svm.tar.xz"

_SETS = (
    # those of the paper
    _set("rcv1", 47_236, ("binary/rcv1_train.binary.bz2", 20_242), ("binary/rcv1_test.binary.bz2", 677_399)),
    _set("epsilon", 2_000, ("binary/epsilon_normalized.bz2", 400_000), ("binary/epsilon_normalized.t.bz2", 100_000)),
    _set("url", 3_231_961, ("binary/url_combined.bz2", 2_396_130)),
    PublicSet(
        "criteo",
        "binary",
        1_000_000,
        PublicFile(_CRITEO, 45_840_617, "criteo.kaggle2014.svm/train.txt.svm"),
        PublicFile(_CRITEO, 6_042_135, "criteo.kaggle2014.svm/test.txt.svm"),
    ),
    _set("webspam", 16_609_143, ("binary/webspam_wc_normalized_trigram.svm.xz", 350_000)),
    # sparse
    _set("webspam-unigram", 254, ("binary/webspam_wc_normalized_unigram.svm.xz", 350_000)),
    _set("a9a", 123, ("binary/a9a", 32_561), ("binary/a9a.t", 16_281)),
    _set("w8a", 300, ("binary/w8a", 49_749), ("binary/w8a.t", 14_951)),
    _set("news20", 1_355_191, ("binary/news20.binary.bz2", 19_996)),
    _set("real-sim", 20_958, ("binary/real-sim.bz2", 72_309)),
    _set("avazu-app", 1_000_000, ("binary/avazu-app.bz2", 14_596_137), ("binary/avazu-app.t.bz2", 1_719_304)),
    _set("avazu-site", 1_000_000, ("binary/avazu-site.bz2", 25_832_830), ("binary/avazu-site.t.bz2", 2_858_160)),
    _set("kdda", 20_216_830, ("binary/kdda.bz2", 8_407_752), ("binary/kdda.t.bz2", 510_302)),
    _set("kddb", 29_890_095, ("binary/kddb.bz2", 19_264_097), ("binary/kddb.t.bz2", 748_401)),
    # few features
    _set("ijcnn1", 22, ("binary/ijcnn1.bz2", 49_990), ("binary/ijcnn1.t.bz2", 91_701)),
    _set("covtype", 54, ("binary/covtype.libsvm.binary.scale.bz2", 581_012)),
    _set("cod-rna", 8, ("binary/cod-rna", 59_535), ("binary/cod-rna.t", 271_617)),
    _set("phishing", 68, ("binary/phishing", 11_055)),
    _set("mushrooms", 112, ("binary/mushrooms", 8_124)),
    _set("splice", 60, ("binary/splice", 1_000), ("binary/splice.t", 2_175)),
    _set("gisette", 5_000, ("binary/gisette_scale.bz2", 6_000), ("binary/gisette_scale.t.bz2", 1_000)),
    _set("susy", 18, ("binary/SUSY.xz", 5_000_000)),
    _set("higgs", 28, ("binary/HIGGS.xz", 11_000_000)),
    # several classes, numbers
    _set("mnist", 780, ("multiclass/mnist.scale.bz2", 60_000), ("multiclass/mnist.scale.t.bz2", 10_000)),
    _set("year", 90, ("regression/YearPredictionMSD.bz2", 463_715), ("regression/YearPredictionMSD.t.bz2", 51_630)),
    _set("e2006", 150_360, ("regression/E2006.train.bz2", 16_087), ("regression/E2006.test.bz2", 3_308)),
)

PUBLIC_SETS: Mapping[str, PublicSet] = {public.name: public for public in _SETS}


def find_file(name: str, test: bool) -> tuple[PublicSet, PublicFile]:
    """A set and its file of rows to train on, or to test on."""
    if name not in PUBLIC_SETS:
        known = ", ".join(repr(known) for known in sorted(PUBLIC_SETS))
        raise ValueError(f"name={name!r} is not known; accepted are {known}")
    public = PUBLIC_SETS[name]
    if not test:
        return public, public.train
    if public.test is None:
        raise ValueError(f"test=True: nobody has split {name!r}; its rows are all in one file")
    return public, public.test
