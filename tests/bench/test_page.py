"""The page as text: whole, escaped, and in need of nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from report_cases import curve, records, row_of, run_named, sections
from symsgd.bench.compare import Change, compare
from symsgd.bench.report import figures
from symsgd.bench.report.base import Cell, Chart, Section, Table
from symsgd.bench.report.page import write_report

NEWEST = records(run_named("new", "2026-02-02T10:00:00+00:00"), [row_of(seconds=2.0), row_of("b", reason="<no> wheel")])
BEFORE = records(run_named("old"), [row_of(seconds=1.0), row_of("b", reason="<no> wheel")])
EMPTY = ("br", "link", "meta", "use", "path", "rect", "image")


class Outline(HTMLParser):
    """What is in a page, and whether what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = {name: value or "" for name, value in attrs}
        if tag not in EMPTY:
            self.open.append(tag)
        self.names += [held["id"]] if "id" in held else []
        address = held.get("href") or held.get("xlink:href") or held.get("src") or ""
        (self.links if tag in ("a", "use") else self.loads).append(address)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def written(folder: Path, shown: list[Section], **options: object) -> tuple[str, Outline]:
    given = {"newest": NEWEST, "before": None, "changes": []} | options
    path = write_report(folder, shown, **given)  # type: ignore[arg-type]
    assert path == folder / "report.html"
    page = path.read_text()
    outline = Outline()
    outline.feed(page)
    assert not outline.open
    return page, outline


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Outline]:
    folder = tmp_path_factory.mktemp("report")
    return folder, *written(folder, sections(), before=BEFORE, changes=compare(BEFORE, NEWEST))


def test_nothing_is_loaded_from_elsewhere(whole: tuple[Path, str, Outline]) -> None:
    _, page, outline = whole
    assert set(outline.loads) <= {"", "data:,"}
    addresses = set(re.findall(r"\w+://[^\"'\s)<]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, "names, which nobody asks for"
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_names_are_unique_and_links_lead_somewhere(whole: tuple[Path, str, Outline]) -> None:
    folder, page, outline = whole
    assert len(outline.names) == len(set(outline.names))
    for link in outline.links:
        assert link[1:] in outline.names if link.startswith("#") else (folder / link).is_file()
    for name in re.findall(r"url\(#([^)]+)\)", page):
        assert name in outline.names


def test_figures_are_files_too(whole: tuple[Path, str, Outline]) -> None:
    folder, page, _ = whole
    for name in ("paper-speedup-logistic", "convergence-a", "convergence-b"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / "figures" / f"{name}.svg").read_text()
    assert page.count("<svg") == 2 * 3, "light and dark"
    assert not list(folder.rglob("*.part"))


def test_the_run_is_described(whole: tuple[Path, str, Outline]) -> None:
    text = whole[2].text
    for word in ("Example EX-4210", "8 cores", "avx2", "numpy 2.4.6", "0123456789ab", "symsgd bench quick --size quick",
                 "1 gives a reason"):  # fmt: skip
        assert word in text


def test_each_section_has_its_command(whole: tuple[Path, str, Outline]) -> None:
    for section in sections():
        assert section.title in whole[2].text
        assert section.command in whole[2].text


def test_changes_are_told(whole: tuple[Path, str, Outline]) -> None:
    assert "Since run old, beyond noise: 1 of 1 measures changed." in whole[2].text
    assert "2.00 times slower" in whole[2].text


def test_text_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>\"&"
    items = [
        Table(evil, [evil], [[Cell(evil, evil)], [Cell(evil, 1.0, good=True)]], evil),
        Chart("c", evil, evil, curve),
    ]
    changes = [Change("measure", evil, evil, 1.0, 2.0)]
    page, outline = written(tmp_path, [Section(evil, evil, evil, items)], before=BEFORE, changes=changes)
    assert evil not in page
    assert outline.text.count("alert('x')") >= 8, "it is shown as it is"
    assert page.count("<script>") == 1, "our own"


def test_names_of_charts_cannot_leave_the_folder(tmp_path: Path) -> None:
    charts = [Chart("../../a b", "one", "", curve), Chart("a b", "another", "", curve)]
    written(tmp_path, [Section("s", "", "", charts)])
    assert {own.name for own in (tmp_path / "figures").iterdir()} == {"a-b.png", "a-b.svg", "a-b-2.png", "a-b-2.svg"}


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [Section("nothing", "", "", [])],
        [Section("empty", "text", "", [Table("t", ["a", "b"], []), Table("no columns", [], [])])],
        [Section("short", "", "", [Table("t", ["a", "b"], [[Cell("x")]])])],
    ],
)
def test_what_is_missing_is_no_error(shown: list[Section], tmp_path: Path) -> None:
    _, outline = written(tmp_path, shown)
    assert "There is no earlier run" in outline.text
    assert ("nothing was measured" in outline.text) == bool(shown and shown[0].title == "empty")


def test_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    rows = [
        [Cell("10×", 10)],
        [Cell("9×", 9.0)],
        [Cell("∞", float("inf"))],
        [Cell("–", float("nan"))],
        [Cell("skipped")],
    ]
    page, _ = written(tmp_path, [Section("s", "", "", [Table("t", ["speedup"], rows)])])
    for key in ('data-key="10.0" data-kind="number"', 'data-key="Infinity" data-kind="number"', 'data-key="skipped"'):
        assert key in page
    assert "nan" not in page, "it goes last, as an empty cell"


def test_without_matplotlib_there_are_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "can_draw", lambda: False)
    page, outline = written(tmp_path, sections())
    assert "<svg" not in page
    assert "matplotlib is not installed" in outline.text
    assert "The paper's table, on twins" in outline.text
    assert not (tmp_path / "figures").exists()


def test_a_page_of_tables_misses_nothing_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "can_draw", lambda: False)
    _, outline = written(tmp_path, [Section("s", "", "", [Table("t", ["a"], [[Cell("x")]])])])
    assert "matplotlib" not in outline.text


def test_the_same_rows_give_the_same_page(tmp_path: Path) -> None:
    shown = sections()[2:3]
    assert written(tmp_path / "a", shown)[0] == written(tmp_path / "b", shown)[0]


def test_many_changes_are_behind_a_click(tmp_path: Path) -> None:
    changes = [Change("new", f"row {at}") for at in range(40)]
    page, _ = written(tmp_path, [], before=BEFORE, changes=changes)
    assert "28 more" in page
    assert page.count("is new in this run") == 40
