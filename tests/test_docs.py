"""The documentation is true: its Python runs, and the source it shows is the source there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"(?:<!-- source: (?P<source>\S+) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.S)


def blocks(page: Path) -> list[re.Match[str]]:
    return list(BLOCK.finditer(page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_the_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    code = [block["code"] for block in blocks(page) if block["language"] == "python" and not block["source"]]
    names: dict[str, object] = {"__name__": page.stem}
    for part in code:
        exec(compile(part, page.name, "exec"), names)


def test_shown_source_is_the_source() -> None:
    shown = [(page, block) for page in PAGES for block in blocks(page) if block["source"]]
    assert shown
    for page, block in shown:
        source = (ROOT / block["source"]).read_text()
        assert block["code"].rstrip() in source, f"{page.name} shows an old {block['source']}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
