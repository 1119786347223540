"""A system in a process of its own: neither its threads, its memory nor its crash are anybody else's.

The parent writes the task to a folder and starts ``python -m symsgd.bench.apart FOLDER SYSTEM THREADS``; they talk in
lines of JSON. The child says when it is set up; then, for every budget that it is asked for, it trains, writes the
weights to a file and answers with the seconds. In between it waits, and the parent has the machine.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np

from symsgd.bench.stored_task import read_task
from symsgd.bench.systems.base import Model, System, timed
from symsgd.bench.systems.registry import make

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "SYMSGD_NUM_THREADS",
)  # fmt: skip
WARM_UP_BELOW = 1.0  # seconds: a first training as short as this is made again, with everything loaded


@dataclass(frozen=True, eq=False)
class Answer:
    """Seconds, and after a training the model; or the reason why there is neither."""

    seconds: float = 0.0
    model: Model | None = None
    reason: str = ""


class Apart:
    """A system that is set up in a process of its own, from the task in ``folder``. Nothing that goes wrong there is an
    exception here. One that takes longer than it may is ended."""

    def __init__(self, name: str, folder: Path, n_threads: int) -> None:
        self.name, self.folder, self.n_threads = name, folder, n_threads
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        return self._process is not None

    def set_up(self, most_seconds: float) -> Answer:
        """Starts the process. The seconds are those of the system's own set-up."""
        self.close()
        self._own = tempfile.TemporaryDirectory(dir=self.folder)
        self._errors = Path(self._own.name) / "stderr"
        command = [sys.executable, "-m", "symsgd.bench.apart", str(self.folder), self.name, str(self.n_threads)]
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(self.n_threads))
        with self._errors.open("wb") as errors, _on_cores(self.n_threads):
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment,
                start_new_session=True,
            )  # fmt: skip
        self._unread = b""
        return self._answer(most_seconds)

    def train(self, budget: int, most_seconds: float) -> Answer:
        """A training from nothing."""
        if self._process is None:
            return Answer(reason="its process has ended")
        assert self._process.stdin is not None
        weights = Path(self._own.name) / "weights.npy"
        request = json.dumps({"budget": budget, "weights": str(weights)})
        with suppress(BrokenPipeError):  # no answer will come, and that is dealt with below
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()
        answer = self._answer(most_seconds)
        if answer.reason:
            return answer
        coef, intercept = np.split(np.load(weights, allow_pickle=False), [-1])
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            return Answer(answer.seconds, reason="its weights are not finite")
        return Answer(answer.seconds, Model(coef, float(intercept[0])))

    def close(self) -> None:
        """Ends the process, and all that it has started."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()  # it ends by itself, and removes its files
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        self._own.cleanup()

    def _answer(self, most_seconds: float) -> Answer:
        line = self._line(time.monotonic() + most_seconds)
        if line is None:
            self._kill()
            return Answer(reason=f"no answer within {most_seconds:g} s")
        if not line:
            return Answer(reason=self._last_words())
        content = json.loads(line)
        return Answer(content.get("seconds", 0.0), reason=content.get("reason", ""))

    def _line(self, deadline: float) -> bytes | None:
        """The next line; empty where the process has ended, None if there is none in time."""
        assert self._process is not None
        assert self._process.stdout is not None
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            read = os.read(self._process.stdout.fileno(), 1 << 16)
            if not read:
                return b""
            self._unread += read
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.close()

    def _last_words(self) -> str:
        """Of a process that has ended unasked: how, and the last line that it wrote."""
        assert self._process is not None
        status = self._process.wait()
        how = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        lines = [line for line in self._errors.read_text(errors="replace").splitlines() if line.strip()]
        self.close()
        return f"its process {how}: {lines[-1].strip()}" if lines else f"its process {how}"


@contextmanager
def _on_cores(count: int) -> Iterator[None]:
    """What is started meanwhile has so many cores, and so do all of its threads."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def main(folder: str, name: str, n_threads: str) -> None:
    """The child."""
    requests, answers = _private_pipes()
    try:
        system = make(name)
        task = read_task(Path(folder), int(n_threads))
        before = time.perf_counter()
        system.set_up(task)
        _say(answers, seconds=time.perf_counter() - before)
    except Exception as error:
        _say(answers, reason=_in_words(error))
        return
    try:
        _serve(system, requests, answers)
    finally:
        system.tear_down()


def _serve(system: System, requests: TextIO, answers: TextIO) -> None:
    first = True
    for line in requests:
        request = json.loads(line)
        try:
            seconds = timed(system, request["budget"])
            if first and seconds < WARM_UP_BELOW:
                seconds = timed(system, request["budget"])
            first = False
            model = system.model()
            np.save(request["weights"], np.append(np.asarray(model.coef, np.float64), model.intercept))
        except Exception as error:
            _say(answers, reason=_in_words(error))
        else:
            _say(answers, seconds=seconds)


def _private_pipes() -> tuple[TextIO, TextIO]:
    """Standard input and output moved out of the way of libraries that print, in whatever language."""
    requests, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return os.fdopen(requests, encoding="utf-8"), os.fdopen(answers, "w", encoding="utf-8")


def _say(answers: TextIO, **content: Any) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def _in_words(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


if __name__ == "__main__":
    main(*sys.argv[1:])
