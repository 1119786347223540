"""The documentation is true: its Python runs, and the source it shows is the source there is."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_cases import run

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"(?:<!-- source: (?P<source>\S+) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.S)


def blocks(page: Path) -> list[re.Match[str]]:
    return list(BLOCK.finditer(page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_on_the_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page):
        if block["language"] == "python" and not block["source"]:
            exec(compile(block["code"], page.name, "exec"), names)
        elif block["language"] == "console":
            for command, shown in commands(block["code"]):
                said = entered(command)
                assert re.fullmatch(pattern(shown), said), f"{page.name}: $ {command}\n{said}"


def commands(code: str) -> list[tuple[str, str]]:
    """The commands of a console and what it shows after each."""
    parts = [part.partition("\n") for part in re.split(r"^\$ ", code, flags=re.M)[1:]]
    return [(command, shown) for command, _, shown in parts]


def entered(command: str) -> str:
    """What a terminal would show of ``symsgd …``: results, and errors if there are some."""
    command, _, then = command.partition("; ")
    program, *arguments = shlex.split(command)
    assert program == "symsgd"
    outcome = run(*arguments)
    if not then:
        assert outcome.code == 0, outcome.err
        return outcome.out
    assert then == 'echo "exit code $?"'
    return outcome.out + outcome.error + f"\nexit code {outcome.code}\n"


def pattern(shown: str) -> str:
    """… stands for anything, and blanks for any number of them."""
    words = [re.escape(word).replace("…", ".*") for word in shown.split()]
    return r"(?s)\s*" + r"\s*".join(words) + r"\s*"


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


@pytest.fixture
def idea() -> Any:
    """docs/figures/idea.py, which draws the picture of docs/idea.md."""
    spec = importlib.util.spec_from_file_location("idea", ROOT / "docs/figures/idea.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def carried_by(picture: Path) -> dict[str, Any]:
    found = re.search("<dc:description>(.*?)</dc:description>", picture.read_text(), re.S)
    assert found is not None
    return json.loads(found[1])


def test_the_picture_of_the_idea_shows_what_its_script_computes(idea: Any, tmp_path: Path) -> None:
    drawn = carried_by(idea.FIGURE)
    assert drawn.keys() == idea.numbers().keys()
    for name, points in idea.numbers().items():
        np.testing.assert_allclose(drawn[name], points, atol=1e-4)
    assert idea.FIGURE.stat().st_size < 60_000
    idea.draw(tmp_path / "again.svg")
    assert carried_by(tmp_path / "again.svg") == drawn


def test_the_page_on_the_idea_says_how_far_off_each_combiner_is(idea: Any) -> None:
    drawn, page = idea.numbers(), (ROOT / "docs/idea.md").read_text()
    np.testing.assert_allclose(drawn["exact"], drawn["second"][-1], atol=1e-12)
    for name, distance in idea.distances(drawn).items():
        assert re.search(rf"\| {name} \|.*\| {distance:.2f}\b", page), f"{name} is off by {distance:.2f}"
