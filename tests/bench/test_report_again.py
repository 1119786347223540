"""From a file of results to a page, through the program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import report_cases
from report_cases import row_of, rows_with_noise, run_named
from symsgd.bench import running
from symsgd.bench.records import Journal, Row
from symsgd.cli import main


@pytest.fixture(autouse=True)
def _sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "sections", lambda _: report_cases.sections()[-1:])


def measure(folder: Path, name: str, day: int, rows: list[Row]) -> None:
    journal = Journal(folder, run_named(name, f"2026-01-{day:02}T10:00:00+00:00"))
    for row in rows:
        journal.add(row)


def report(folder: Path, *options: str) -> str:
    done = CliRunner().invoke(main, ["bench", "report", "--out", str(folder), *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_second_run_says_what_changed(tmp_path: Path) -> None:
    measure(tmp_path, "first", 1, rows_with_noise(1, 0.02))
    assert "no earlier run" in report(tmp_path)
    measure(tmp_path, "second", 2, rows_with_noise(2, 0.02))
    said = report(tmp_path)
    assert "since run first, nothing changed beyond noise in 192 measures" in said
    assert "Nothing changed beyond noise".lower() in (tmp_path / "report.html").read_text().lower()
    measure(tmp_path, "third", 3, rows_with_noise(3, 0.02, factor=lambda row: 1.5 if row.data == "url twin" else 1.0))
    document = json.loads(report(tmp_path, "--json"))
    assert "since run second, beyond noise: 24 of 192 measures changed" in document["summary"]
    assert len(document["changes"]) == 24
    assert all("url twin" in change for change in document["changes"])


def test_another_folder_can_be_compared_with(tmp_path: Path) -> None:
    measure(tmp_path / "a", "theirs", 1, [row_of(seconds=1.0)])
    measure(tmp_path / "b", "ours", 2, [row_of(seconds=3.0)])
    assert "3.00 times slower" in report(tmp_path / "b", "--against", str(tmp_path / "a"))


def test_the_tables_as_markdown(tmp_path: Path) -> None:
    measure(tmp_path, "first", 1, [row_of(seconds=1.0)])
    report(tmp_path, "--markdown", str(tmp_path / "results.md"))
    assert "| scikit-learn saga | 10.5 |" in (tmp_path / "results.md").read_text()
