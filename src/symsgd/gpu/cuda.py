"""The machine of CUDA: CuPy's arrays, and the kernels in ``kernels/``, compiled when they are first needed."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from symsgd.gpu.machine import Array, Control, Csr, Directions, Model, Step, Stretch
from symsgd.gpu.planning import (
    BLOCK_SLOTS,
    EXACT_THREADS,
    GRAM_BLOCKS,
    ROUNDS_THREADS,
    SUMS,
    gram_rows,
    models_at_once,
    plan_exact,
    plan_rounds,
)

KERNELS = Path(__file__).parent / "kernels"
LOSS_KINDS = (
    "log_loss", "hinge", "perceptron", "squared_hinge", "modified_huber", "squared_error", "huber",
    "epsilon_insensitive", "squared_epsilon_insensitive",
)  # fmt: skip
UNIT = 2.0**-40  # of the weights of sparse rows, as in kernels/sparse_rows.cuh

_POINTER = np.uint64
_TARGETS = np.dtype(
    [(name, _POINTER) for name in ("label", "weight", "positive_weight", "negative_weight", "class_id")], align=True
)


_PARTS = np.dtype([(name, np.int32) for name in (
    "q", "gram", "steps", "faded", "margins", "before", "products", "expected", "expected_next", "sharpness", "turn",
    "start", "end", "rate", "back", "sums", "drift", "slope", "next_slope", "pace", "intercept", "losses", "facts",
    "scale", "weights", "scratch", "rows", "ahead", "rest",
)])  # fmt: skip

FILES = {
    "exact": ("device.cuh", "common.cuh", "losses.cuh", "exact.cu"),
    "rounds": ("device.cuh", "common.cuh", "losses.cuh", "spans.cuh", "dense_rows.cuh", "rounds.cu"),
    "sparse rounds": ("device.cuh", "common.cuh", "losses.cuh", "spans.cuh", "sparse_rows.cuh", "rounds.cu"),
    "project": ("device.cuh", "common.cuh", "project.cu"),
}
FUNCTIONS = {
    "exact": "exact_pass", "rounds": "rounds_pass", "sparse rounds": "rounds_pass", "project": "project_rows",
}  # fmt: skip


def source(kernel: str) -> str:
    """The source of a kernel, in one piece."""
    return "\n".join((KERNELS / name).read_text() for name in FILES[kernel])


def definitions(
    step: Step, dtype: np.dtype[Any], architecture: int, block: int = GRAM_BLOCKS[0], processors: int = 256
) -> tuple[str, ...]:
    """What it is compiled for. ``block`` is that of the exact recurrence."""
    loss = "hinge" if step.loss == "one_class" else step.loss
    return (
        f"-DREAL={'float' if dtype.itemsize == 4 else 'double'}",
        f"-DLOSS_KIND={LOSS_KINDS.index(loss)}",
        f"-DPASSIVE={step.passive_aggressive}",
        f"-DBLOCK={block}",
        f"-DLENGTH={-(-processors // 32)}",
        f"-DARCHITECTURE={architecture}",
    )


class Cuda:
    """The current CUDA device."""

    def __init__(self) -> None:
        import cupy

        self.xp: Any = cupy
        facts = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self.name = facts["name"].decode()
        self.blocks = int(facts["multiProcessorCount"])
        self.shared = int(facts["sharedMemPerBlockOptin"])
        self.architecture = 100 * int(facts["major"]) + 10 * int(facts["minor"])  # as __CUDA_ARCH__
        self._kept: dict[tuple[Any, ...], Array] = {}
        self._beside: Any = None
        self._uploads: Any = threading.local()

    @property
    def _chains(self) -> int:
        """Models at once in exact mode."""
        return max(1, self.blocks // 4)

    def asarray(self, array: Any, dtype: np.dtype[Any] | None = None) -> Array:
        return self.xp.ascontiguousarray(self.xp.asarray(array, dtype))

    def upload(self, array: Any) -> Array:
        if not hasattr(self._uploads, "stream"):  # one a thread: memory that is free again is the stream's
            self._uploads.stream = self.xp.cuda.Stream(non_blocking=True)
        with self._uploads.stream as stream:
            copy = self.xp.asarray(array)
            stream.synchronize()
        return copy

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        count = math.prod(shape)
        memory = self.xp.cuda.alloc_pinned_memory(count * dtype.itemsize)
        return np.frombuffer(memory, dtype, count).reshape(shape)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        return np.asarray(self.xp.asnumpy(array))

    def free_bytes(self) -> int:
        pool = self.xp.get_default_memory_pool()
        return int(self.xp.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())

    def padded(self, n_features: int) -> int:
        return -(-n_features // 4) * 4

    def most_rows(self, n_features: int, n_models: int, rank: int, dtype: np.dtype[Any]) -> int:
        most = models_at_once(n_models, n_features, rank, dtype.itemsize, self.blocks, self.shared)
        return plan_rounds(n_features, most, rank, dtype.itemsize, self.shared).most_rows

    @contextmanager
    def beside(self) -> Iterator[None]:
        if self._beside is None:
            self._beside = self.xp.cuda.Stream(non_blocking=True)
        # what has been asked for so far comes first: it may still read memory that is free by now
        self._beside.wait_event(self.xp.cuda.get_current_stream().record())
        with self._beside:
            yield

    def wait_for_beside(self) -> None:
        stream = self.xp.cuda.get_current_stream()
        if self._beside is not None:
            stream.wait_event(self._beside.record())

    def sparse_rows(self, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Csr:
        return Csr(
            self.asarray(data),
            self.asarray(indices, np.dtype(np.int32)),
            self.asarray(indptr, np.dtype(np.int64)),
            shape,
        )

    def project(self, X: Csr, V: Array, place_of: Array) -> Array:
        n_rows, rank = X.shape[0], V.shape[1]
        along = self.xp.empty((n_rows, rank), X.dtype)
        function = _compiled("project", definitions(Step("log_loss", 0.0, 0.0, 0.0), X.dtype, self.architecture))
        arguments = (
            X.data, X.indices, X.indptr, self.asarray(place_of, np.dtype(np.int32)), V, np.int32(rank),
            np.int64(n_rows), along,
        )  # fmt: skip
        function((-(-n_rows // 8),), (256,), arguments)
        return along

    def gram_block(self, n_features: int, n_models: int, dtype: np.dtype[Any]) -> int:
        return gram_rows(n_features, min(n_models, self._chains), dtype.itemsize, self.blocks, self.shared)

    def exact(self, stretch: Stretch, gram: Array, step: Step, model: Model) -> Array:
        if len(model.w) > self._chains:
            return self._in_groups(self._chains, stretch, model, lambda part, own: self.exact(part, gram, step, own))
        xp, dtype = self.xp, model.w.dtype
        models, features = model.w.shape
        rows = gram.shape[1]
        plan = plan_exact(features, models, dtype.itemsize, self.blocks, self.shared, rows)
        decay = xp.exp(stretch.decay - stretch.decay[:, :1])
        steps, losses = self._scratch("steps", (models, stretch.count), dtype), xp.empty(models)
        partial = self._scratch("partial", (BLOCK_SLOTS, models, plan.workers, plan.block), dtype)
        counters = xp.zeros((BLOCK_SLOTS + 1) * models, np.uint32)
        fields = {
            **_common(stretch, step, model), "slice": plan.slice, "staged": plan.staged, "gram": gram,
            "decay": decay.astype(dtype), "v": model.w,
            "steps": steps, "losses": losses, "partial": partial, "chained": counters, "worked": counters[models:],
        }  # fmt: skip
        struct = _pack(_exact_type(dtype), fields)
        self._launch(
            "exact",
            definitions(step, dtype, self.architecture, rows),
            models + plan.workers,
            EXACT_THREADS,
            plan.shared,
            struct,
        )
        model.w *= decay[:, -1:].astype(dtype)
        return losses

    def rounds(self, stretch: Stretch, directions: Directions, control: Control, step: Step, model: Model) -> Array:
        xp, dtype = self.xp, model.w.dtype
        models, features = model.w.shape
        wide = 0 if isinstance(stretch.X, Csr) else features
        most = models_at_once(models, wide, directions.rank, dtype.itemsize, self.blocks, self.shared)
        if models > most:
            return self._rounds_in_groups(most, stretch, directions, control, step, model)
        rank, blocks = directions.rank, self.blocks
        sparse = isinstance(stretch.X, Csr)
        plan = plan_rounds(0 if sparse else features, models, rank, dtype.itemsize, self.shared)
        fixed = xp.rint(model.w.astype(np.float64) / UNIT).astype(np.int64) if sparse else None
        scale = xp.empty(models, dtype)
        losses = xp.empty((models, blocks))
        words = np.dtype((np.uint64, dtype.itemsize // 4))
        columns = models * (2 * rank + SUMS)
        sizes = {
            "told": 2 * columns * blocks, "answers": 2 * blocks * (columns + models * rank),
            "partial": 0 if sparse else models * blocks * features, "weights": blocks if sparse else models * features,
        }  # fmt: skip
        memory = self._scratch("messages", (sum(sizes.values()),), words)
        memory.fill(0)
        ends = np.cumsum(list(sizes.values()))
        messages = {name: memory[end - count :] for (name, count), end in zip(sizes.items(), ends, strict=True)}
        state = xp.asarray(_pack_control(control).view(np.uint8))
        fields = {
            **_common(stretch, step, model), "rank": rank, "staged": plan.staged, "slots": plan.slots,
            "most_rows": plan.most_rows, "parts": plan.parts,
            "directions": directions.V, "along": directions.along, "sharpness": directions.sharpness,
            "turn": directions.turn,
            "tail": directions.tail, "places": directions.places, "n_places": len(directions.V), "fixed": fixed,
            "squares": directions.squares, "decay": stretch.decay, "w": scale if sparse else model.w,
            "slope": model.slope, "losses": losses, **messages, "adapts": control.adapts, "most": control.most,
            "sweeps": control.sweeps, "tolerance": control.tolerance, "control": state,
        }  # fmt: skip
        struct = _pack(_rounds_type(dtype), fields)
        kernel = "sparse rounds" if sparse else "rounds"
        defined = definitions(step, dtype, self.architecture, processors=blocks)
        self._launch(kernel, defined, blocks, ROUNDS_THREADS, plan.shared, struct)
        if fixed is not None:
            model.w[...] = fixed * (UNIT * scale.astype(np.float64))[:, None]
        _unpack_control(self.to_host(state).view(_CONTROL)[0], control)
        return losses.sum(axis=1)

    def _in_groups(self, most: int, stretch: Stretch, model: Model, run: Callable[[Stretch, Model], Array]) -> Array:
        """So many models at a time."""
        found = []
        for first in range(0, len(model.w), most):
            part = slice(first, first + most)
            targets = replace(
                stretch.targets,
                positive_weight=stretch.targets.positive_weight[part],
                negative_weight=stretch.targets.negative_weight[part],
                class_id=None if stretch.targets.class_id is None else stretch.targets.class_id[part],
            )
            own = replace(stretch, targets=targets)
            if len(stretch.step) > 1:
                own = replace(own, step=stretch.step[part], decay=stretch.decay[part])
            found.append(run(own, Model(model.w[part], model.intercept[part], model.slope[part])))
        return self.xp.concatenate(found)

    def _rounds_in_groups(
        self, most: int, stretch: Stretch, directions: Directions, control: Control, step: Step, model: Model
    ) -> Array:
        """Every group from the same control; the most careful one goes on. None gets stuck: all are to end together."""
        controls: list[Control] = []

        def run(part: Stretch, own: Model) -> Array:
            controls.append(replace(control, stuck=-(1 << 30)))
            return self.rounds(part, directions, controls[-1], step, own)

        losses = self._in_groups(most, stretch, model, run)
        careful = min(controls, key=lambda one: one.rows)
        for name, value in vars(careful).items():
            setattr(control, name, value)
        control.stuck = 0
        return losses

    def _scratch(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Memory that is used again by the next launch."""
        base, inner = dtype.subdtype or (dtype, ())
        own = self._kept.get((name, dtype))
        if own is None or own.shape != (*shape, *inner):
            own = self._kept[name, dtype] = self.xp.empty((*shape, *inner), base)
        return own

    def _launch(
        self, kernel: str, defined: tuple[str, ...], blocks: int, threads: int, shared: int, struct: Any
    ) -> None:
        function = _compiled(kernel, defined)
        function.max_dynamic_shared_size_bytes = shared
        function((blocks,), (threads,), (struct,), shared_mem=shared)


@functools.cache
def _compiled(kernel: str, defined: tuple[str, ...]) -> Any:
    import cupy

    module = cupy.RawModule(code=source(kernel), options=("--std=c++17", *defined))
    return module.get_function(FUNCTIONS[kernel])


def _common(stretch: Stretch, step: Step, model: Model) -> dict[str, Any]:
    """What both kernels are told."""
    models, features = model.w.shape
    sparse = isinstance(stretch.X, Csr)
    X = stretch.X.data if sparse else stretch.X
    stride = 0 if sparse else X.strides[0] // X.itemsize
    return {
        "X": X, "indices": stretch.X.indices if sparse else None, "starts": stretch.X.indptr if sparse else None,
        "stride": stride, "rows": stretch.rows, "count": stretch.count,
        "features": features, "models": models, "per_model": len(stretch.step) > 1,
        "aligned": features % 4 == 0 and stride % 4 == 0 and _address(X) % 16 == 0,
        "step": stretch.step, "targets": stretch.targets, "epsilon": step.epsilon, "kappa": step.kappa,
        "pull": step.pull, "intercept": model.intercept,
    }  # fmt: skip


def _real(dtype: np.dtype[Any], *names: str) -> list[tuple[str, Any]]:
    return [(name, dtype) for name in names]


def _pointers(*names: str) -> list[tuple[str, Any]]:
    return [(name, _POINTER) for name in names]


def _numbers(*names: str) -> list[tuple[str, Any]]:
    return [(name, np.int32) for name in names]


@functools.cache
def _exact_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """``Pass`` of kernels/exact.cu."""
    return np.dtype(
        [
            *_pointers("X"), ("stride", np.int64), *_pointers("rows"),
            *_numbers("count", "features", "models", "slice", "staged", "aligned"),
            *_pointers("gram", "step", "decay"), *_numbers("per_model"), ("targets", _TARGETS),
            *_real(dtype, "epsilon", "kappa", "pull"),
            *_pointers("v", "intercept", "steps", "losses", "partial", "chained", "worked"),
        ],
        align=True,
    )  # fmt: skip


@functools.cache
def _rounds_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """``Pass`` of kernels/spans.cuh."""
    return np.dtype(
        [
            *_pointers("X", "indices", "starts"), ("stride", np.int64), *_pointers("rows"),
            *_numbers("count", "features", "models", "rank", "staged", "slots", "most_rows", "aligned"),
            ("parts", _PARTS),
            *_pointers("directions", "places"), *_numbers("n_places"), *_pointers("along", "sharpness", "turn"),
            *_real(dtype, "tail", "squares"),
            *_pointers("step", "decay"), *_numbers("per_model"), ("targets", _TARGETS),
            *_real(dtype, "epsilon", "kappa", "pull"),
            *_pointers("w", "fixed", "intercept", "slope", "losses"),
            *_pointers("told", "answers", "partial", "weights"),
            *_numbers("adapts", "most", "sweeps"), ("tolerance", np.float32), *_pointers("control"),
        ],
        align=True,
    )  # fmt: skip


def _pack(kind: np.dtype[Any], fields: dict[str, Any]) -> Any:
    """The struct; arrays as their addresses."""

    def packed(name: str) -> Any:
        if name == "targets":
            return tuple(_address(getattr(fields[name], own)) for own in _TARGETS.names or ())
        if name == "parts":
            return tuple(fields[name][own] for own in _PARTS.names or ())
        return _address(fields[name]) if kind[name] == _POINTER else fields[name]

    return np.array(tuple(map(packed, kind.names or ())), kind)[()]


def _address(array: Array | None) -> int:
    if array is None:
        return 0
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


_CONTROL = np.dtype(
    [
        *_numbers("rows", "too_large", "strikes", "since", "between"),
        ("ratio", np.float32), ("errors", np.float64),
        *_numbers("checks", "rounds", "sweeps_made", "stuck", "done"),
    ],
    align=True,
)  # fmt: skip


def _pack_control(control: Control) -> np.ndarray[Any, Any]:
    return np.array([tuple(getattr(control, name) for name in _CONTROL.names or ())], _CONTROL)


def _unpack_control(state: Any, control: Control) -> None:
    for name in _CONTROL.names or ():
        setattr(control, name, type(getattr(control, name))(state[name]))
