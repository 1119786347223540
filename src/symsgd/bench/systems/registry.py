"""The systems that are compared with one another, by name. A file is imported when one of its systems is asked for.

A system of one's own is named ``module:Class``; the module is one that a new process can import.
"""

from __future__ import annotations

from importlib import import_module

from symsgd.bench.systems.base import System

# where each is made: a file of this folder, and a class or a function in it
PLACES: dict[str, tuple[str, str]] = {
    "symsgd": ("ours", "for_peers"),
    "scikit-learn SGD": ("scikit_learn", "SGD"),
    "scikit-learn SGD constant": ("scikit_learn", "SGDConstant"),
    "scikit-learn SGD averaged": ("scikit_learn", "SGDAveraged"),
    "scikit-learn saga": ("scikit_learn", "Saga"),
    "scikit-learn lbfgs": ("scikit_learn", "Lbfgs"),
    "scikit-learn newton-cg": ("scikit_learn", "NewtonCg"),
    "scikit-learn newton-cholesky": ("scikit_learn", "NewtonCholesky"),
    "Vowpal Wabbit": ("vowpal_wabbit", "VowpalWabbit"),
    "Vowpal Wabbit SGD": ("vowpal_wabbit", "VowpalWabbitSGD"),
    "Vowpal Wabbit BFGS": ("vowpal_wabbit", "VowpalWabbitBFGS"),
    "LIBLINEAR": ("liblinear", "Liblinear"),
    "LIBLINEAR dual": ("liblinear", "LiblinearDual"),
    "liblinear-multicore": ("liblinear_multicore", "LiblinearMulticore"),
    "snapml": ("snapml", "SnapML"),
    "xlearn SGD": ("xlearn", "XLearn"),
    "xlearn AdaGrad": ("xlearn", "XLearnAdaGrad"),
    "LAPACK QR": ("lapack", "Lapack"),
    "LAPACK Cholesky": ("lapack", "LapackCholesky"),
    "randomised sketch": ("sketch", "Sketch"),
}

OURS = "symsgd"
LEAST_SQUARES = (OURS, "LAPACK QR", "LAPACK Cholesky", "randomised sketch")
LOGISTIC = tuple(name for name in PLACES if name not in LEAST_SQUARES or name == OURS)


def make(name: str) -> System:
    """A system of that name, not yet set up.

    Raises
    ------
    ValueError : there is none
    """
    if ":" in name:
        place, maker = name.split(":", 1)
    elif name in PLACES:
        file, maker = PLACES[name]
        place = f"symsgd.bench.systems.{file}"
    else:
        raise ValueError(f"system={name!r} is not known; accepted are {', '.join(PLACES)}")
    made: System = getattr(import_module(place), maker)()
    return made
