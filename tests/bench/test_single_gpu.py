"""`python -m symsgd.bench gpu`: a table where there is a GPU, here one of NumPy, and the reason where there is none."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from symsgd import devices
from symsgd.bench import __main__ as program
from symsgd.bench.single import gpu
from symsgd.gpu.host import Host


def test_every_system_is_held_against_the_cpu_in_both_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cuda", lambda: Host(blocks=8))
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "")
    data = gpu.dense_twin("adclick", 0.001)
    assert data.X.shape == (500, 3_076)
    assert data.X.flags.c_contiguous
    for shuffle in (False, True):
        found = {line[1]: dict(zip(gpu.COLUMNS, line, strict=True)) for line in gpu.lines(data, 0.3, shuffle, 2)}
        assert list(found) == list(gpu.SYSTEMS)
        assert float(found["exact, CUDA"]["distance"]) < 1e-4
        assert float(found["symsgd, CUDA"]["distance"]) < 0.5
        assert abs(float(found["exact, CUDA"]["AUC less CPU"])) < 1e-3


def test_the_table_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cuda", lambda: Host(blocks=8))
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "")
    monkeypatch.setattr(gpu, "SETS", {"epsilon": 0.3})
    said = io.StringIO()
    gpu.run(Console(file=said, width=200), scale=0.0005, passes=2)
    assert said.getvalue().count("epsilon twin") == 2 * len(gpu.SYSTEMS)


def test_what_fails_is_a_line_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Host:
        raise RuntimeError("it is on fire\nat line 7")

    monkeypatch.setattr(devices, "cuda", broken)
    cpu, *others = gpu.lines(gpu.dense_twin("epsilon", 0.0005), 0.3, False, 2)
    assert len(cpu) == len(gpu.COLUMNS)
    assert [line[-1] for line in others] == ["it is on fire"] * 2


def test_without_a_gpu_it_ends_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "pip install 'symsgd[cuda]'")
    monkeypatch.setattr("sys.argv", ["symsgd.bench", "gpu", "--scale", "0.001"])
    program.main()
    assert "gpu: skipped: pip install 'symsgd[cuda]'" in capsys.readouterr().out
