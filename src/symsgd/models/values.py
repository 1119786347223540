"""Parameters and attributes of models as JSON and arrays, and back, without a change of type or of a bit.

JSON's own values stand for themselves. Everything else is an object with a single key that says what it is:

    {"$array": ["coef_", [1, 47236]]}               the array of that name in the file, in this shape
    {"$sparse": {"class": "csr_matrix", …}}         a sparse matrix of such arrays
    {"$strings": ["no", "yes"]}                     an object array of text
    {"$numpy": ["<f4", 0.5]}                        a number of numpy's
    {"$float": "inf"}                               what JSON has no number for
    {"$map": [[1, 0.3], [2, 0.7]]}                  a dict, whatever its keys
    {"$tuple": […]}
    {"$choice": ["strategies", "mr-symsgd", {…}]}   a loss, penalty, schedule, strategy or combiner with its parameters
    {"$random_state": […]}                          numpy's RandomState
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from symsgd._choices import Choice
from symsgd.archives import KINDS, Array
from symsgd.combiners import COMBINERS
from symsgd.losses import LOSSES
from symsgd.penalties import PENALTIES
from symsgd.schedules import SCHEDULES
from symsgd.strategies import STRATEGIES

CHOICES: dict[str, Mapping[str, type[Choice]]] = {
    "losses": LOSSES, "penalties": PENALTIES, "schedules": SCHEDULES, "strategies": STRATEGIES, "combiners": COMBINERS,
}  # fmt: skip
SPARSE = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}


class Encoder:
    """Values to JSON; ``arrays`` collects the arrays on the way, one that is there twice once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._seen: dict[tuple[int, int, str], str] = {}

    def encode(self, name: str, value: Any) -> Any:
        """``value`` as JSON; a ValueError with its ``name`` if it cannot be."""
        match value:
            case np.str_() | np.bool_() | np.integer() | np.floating() if not isinstance(value, np.longdouble):
                return {"$numpy": [value.dtype.str, value.item()]}
            case np.ndarray():
                return self._array(name, value)
            case Choice():
                return self._choice(name, value)
            case np.random.RandomState():
                return self._random_state(name, value)
            case dict():
                return {"$map": [[self.encode(name, key), self.encode(name, own)] for key, own in value.items()]}
            case tuple():
                return {"$tuple": [self.encode(name, own) for own in value]}
            case list():
                return [self.encode(name, own) for own in value]
        if sp.issparse(value):
            return self._sparse(name, value)
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if value is None or type(value) in (bool, int, str):
            return value
        raise ValueError(
            f"{name}={value!r} cannot be saved; accepted are numbers, text, lists, dicts and symsgd's own choices"
        )

    def _array(self, name: str, array: Array) -> Any:
        if array.dtype.kind == "O" and array.ndim == 1 and all(type(own) is str for own in array):
            return {"$strings": array.tolist()}
        if array.dtype.kind not in KINDS:
            raise ValueError(f"{name} is an array of dtype {array.dtype}, which cannot be saved; accepted are numbers "
                             "and text")  # fmt: skip
        place = (array.__array_interface__["data"][0], array.nbytes, array.dtype.str)
        shared = array.flags.c_contiguous and array.nbytes > 0
        if shared and place in self._seen:
            return {"$array": [self._seen[place], list(array.shape)]}
        self.arrays[name] = np.array(array, order="C", copy=None)
        if shared:
            self._seen[place] = name
        return {"$array": [name, list(array.shape)]}

    def _sparse(self, name: str, matrix: Any) -> Any:
        kind = "csr_array" if isinstance(matrix, sp.sparray) else "csr_matrix"
        matrix = matrix.tocsr()
        parts = {part: self._array(f"{name}.{part}", getattr(matrix, part)) for part in ("data", "indices", "indptr")}
        return {"$sparse": {"class": kind, "shape": list(matrix.shape), **parts}}

    def _choice(self, name: str, choice: Choice) -> Any:
        for family, known in CHOICES.items():
            if known.get(choice.name) is type(choice):
                fields = {own.name: getattr(choice, own.name) for own in dataclasses.fields(choice)}
                return {
                    "$choice": [family, choice.name, {key: self.encode(name, own) for key, own in fields.items()}]
                }  # fmt: skip
        raise ValueError(f"{name}={choice!r} cannot be saved: it is not one of symsgd's own, so nobody could load it")

    def _random_state(self, name: str, random: np.random.RandomState) -> Any:
        kind, keys, position, has_gauss, gauss = random.get_state(legacy=True)
        return {
            "$random_state": [kind, [int(key) for key in keys], position, has_gauss, self.encode(name, float(gauss))]
        }  # fmt: skip


class Decoder:
    """What :class:`Encoder` wrote, as it was."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(own) for own in value]
        if not isinstance(value, dict):
            return value
        [(tag, content)] = value.items()
        return self._readers[tag](self, content)

    def _array(self, content: Any) -> Array:
        name, shape = content
        return self.arrays[name].reshape(shape)

    def _sparse(self, content: Any) -> Any:
        parts = tuple(self.decode(content[part]) for part in ("data", "indices", "indptr"))
        array = sp.csr_array(parts, shape=tuple(content["shape"]))
        array.check_format(full_check=True)
        return SPARSE[content["class"]](array)  # by way of an array, which may have a single axis

    def _strings(self, content: Any) -> Array:
        if not all(isinstance(own, str) for own in content):
            raise ValueError("$strings has what is not text")
        return np.array(content, dtype=object)

    def _numpy(self, content: Any) -> Any:
        dtype = np.dtype(content[0])
        if dtype.kind not in KINDS:
            raise ValueError(f"$numpy has the type {dtype}")
        return np.array(content[1], dtype)[()]

    def _choice(self, content: Any) -> Choice:
        family, name, fields = content
        return CHOICES[family][name](**{key: self.decode(own) for key, own in fields.items()})

    def _random_state(self, content: Any) -> np.random.RandomState:
        kind, keys, position, has_gauss, gauss = content
        random = np.random.RandomState()
        random.set_state((kind, np.array(keys, np.uint32), position, has_gauss, self.decode(gauss)))
        return random

    _readers: ClassVar[dict[str, Callable[[Decoder, Any], Any]]] = {
        "$array": _array,
        "$sparse": _sparse,
        "$strings": _strings,
        "$numpy": _numpy,
        "$float": lambda self, content: float(content),
        "$map": lambda self, content: {self.decode(key): self.decode(own) for key, own in content},
        "$tuple": lambda self, content: tuple(self.decode(content)),
        "$choice": _choice,
        "$random_state": _random_state,
    }
