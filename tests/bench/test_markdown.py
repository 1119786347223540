"""The report as Markdown."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from report_cases import curve, sections
from symsgd.bench.report.base import Cell, Chart, Section, Table, number
from symsgd.bench.report.markdown import as_markdown, write_markdown


def test_a_section() -> None:
    table = Table("Times", ["system", "seconds"], [[Cell("a|b", good=True), number(1.5)], [Cell("c")]], "In seconds.")
    text = as_markdown([Section("Speed", "How fast.", "symsgd bench quick", [table])])
    assert text == (
        "## Speed\n\nHow fast.\n\n    symsgd bench quick\n\n**Times**\n\n"
        "| system | seconds |\n| :-- | --: |\n| a\\|b ✓ | 1.5 |\n| c |  |\n\nIn seconds.\n"
    )


def test_an_empty_table_says_so() -> None:
    assert "Nothing was measured." in as_markdown([Section("s", "", "", [Table("t", ["a"], [])])])


def test_charts_are_shown_where_they_are(tmp_path: Path) -> None:
    shown = [Section("s", "", "", [Chart("Speed up", "a title", "what is seen", curve)])]
    assert "![" not in as_markdown(shown)
    (tmp_path / "bench" / "figures").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    write_markdown(tmp_path / "docs" / "results.md", shown, tmp_path / "bench")
    assert "![what is seen](../bench/figures/speed-up.svg)" in (tmp_path / "docs" / "results.md").read_text()


def test_all_sections_are_there() -> None:
    text = as_markdown(sections())
    for section in sections():
        assert f"## {section.title}\n" in text
    assert all(line.count("|") - line.count("\\|") > 1 for line in text.splitlines() if line.startswith("|"))


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    from symsgd.cli import main

    target = tmp_path / "missing" / "results.md"
    done = CliRunner().invoke(main, ["bench", "report", "--out", str(tmp_path), "--markdown", str(target)])
    assert done.exit_code == 1
    assert "its folder does not exist" in done.output
