"""Arrays that stand for a GPU's, and a machine that has them, where there is no GPU.

They are as strict as CuPy's about what is theirs: NumPy's functions do not take them, and they do not mix with arrays
of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from symsgd.gpu.host import Host

TAKES_HOST_ARRAYS = ("asarray", "array", "ascontiguousarray")


class GpuArray(np.ndarray):  # type: ignore[type-arg]
    """An array in the memory of a GPU, if one believes it."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.__array_interface__, "version": 3}

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise TypeError(f"numpy.{function.__name__} was given an array of a GPU")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(type(own) is np.ndarray and own.ndim for own in inputs):
            raise TypeError(f"{ufunc.__name__} of an array of a GPU and one of the host")
        kwargs = {name: here(value) for name, value in kwargs.items()}
        return there(getattr(ufunc, method)(*map(here, inputs), **kwargs))


def here(value: Any) -> Any:
    """As NumPy's: the same numbers."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(here, value))
    return value.view(np.ndarray) if isinstance(value, GpuArray) else value


def there(value: Any) -> Any:
    """As a GPU's: the same numbers."""
    return np.asarray(value).view(GpuArray) if isinstance(value, (np.ndarray, np.generic)) else value


class Functions:
    """NumPy's, for arrays of a GPU."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(np, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            if name not in TAKES_HOST_ARRAYS and any(type(own) is np.ndarray for own in args):
                raise TypeError(f"{name} of the GPU was given an array of the host")
            return there(function(*here(args), **{key: here(value) for key, value in kwargs.items()}))

        return called


def _parts(function: Callable[[Any], Any], whole: Any) -> Any:
    """A dataclass of arrays, or of such, with the function of each."""
    found = {own.name: getattr(whole, own.name) for own in fields(whole)}
    changed = {name: function(own) for name, own in found.items() if isinstance(own, np.ndarray)}
    inner = {name: _parts(function, own) for name, own in found.items() if hasattr(own, "__dataclass_fields__")}
    return replace(whole, **changed, **inner)


@dataclass
class Gpu(Host):
    """The machine of NumPy with arrays of its own."""

    xp: Any = field(default_factory=Functions, repr=False)
    name: str = "a GPU of NumPy"

    def asarray(self, array: Any, dtype: Any = None) -> Any:
        return there(super().asarray(here(array), dtype))

    def to_host(self, array: Any) -> Any:
        if type(array) is np.ndarray:
            raise TypeError("an array of the host was asked for from the GPU")
        return here(array).copy()

    def exact(self, stretch: Any, gram: Any, step: Any, model: Any) -> Any:
        return there(super().exact(_parts(here, stretch), here(gram), step, _parts(here, model)))

    def rounds(self, stretch: Any, directions: Any, control: Any, step: Any, model: Any) -> Any:
        found = super().rounds(_parts(here, stretch), _parts(here, directions), control, step, _parts(here, model))
        return there(found)
