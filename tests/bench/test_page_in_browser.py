"""The page in a real browser: headless Chromium, where Debian or somebody else has installed it with its driver."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from report_cases import records, row_of, run_named, sections
from symsgd.bench.compare import compare
from symsgd.bench.report.page import write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic",
)  # fmt: skip

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="no Chromium with its driver: apt-get install chromium chromium-driver"
)

# the colour of an element's text, and what lies behind it
COLOURS = """
  const element = document.querySelector(arguments[0]);
  let behind = element;
  while (/^rgba\\(.*, 0\\)$/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  return [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    before = records(run_named("old"), [row_of(seconds=1.0), row_of("b", seconds=1.0)])
    newest = records(run_named("new"), [row_of(seconds=2.0), row_of("b", reason="it is not installed")])
    return write_report(tmp_path_factory.mktemp("report"), sections(), newest, before, compare(before, newest))


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield browser
    browser.quit()


@pytest.fixture
def browser(started: Any, page: Path) -> Any:
    """The page, newly opened in a wide window and light."""
    see(started, "light", 1600)
    started.get_log("performance")
    started.get(page.as_uri())
    return started


def emulate(browser: Any, theme: str, media: str = "") -> None:
    features = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
    told = [{"name": name, "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": told})


def see(browser: Any, theme: str, width: int) -> None:
    emulate(browser, theme)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    # The page hears of a change with the next frame it draws, before what it asked to be called in that frame; the
    # second frame is one that began after the change.
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def table(browser: Any, title: str) -> Any:
    return browser.find_element(By.CSS_SELECTOR, f'[aria-label="{title}"] table')


def column(table: Any, at: int) -> list[str]:
    return [cell.text for cell in table.find_elements(By.CSS_SELECTOR, f"tbody td:nth-child({at + 1})")]


def brightness(colour: str) -> float:
    shares = [float(own) / 255 for own in re.findall(r"[\d.]+", colour)[:3]]
    bent = [own / 12.92 if own <= 0.04045 else ((own + 0.055) / 1.055) ** 2.4 for own in shares]
    return sum(weight * own for weight, own in zip((0.2126, 0.7152, 0.0722), bent, strict=True))


def contrast(browser: Any, selector: str) -> float:
    dark, light = sorted(brightness(own) for own in browser.execute_script(COLOURS, selector))
    return (light + 0.05) / (dark + 0.05)


def test_it_runs_clean_and_asks_nobody(browser: Any, page: Path) -> None:
    assert browser.get_log("browser") == []
    sent = [json.loads(own["message"])["message"] for own in browser.get_log("performance")]
    asked = {own["params"]["request"]["url"] for own in sent if own["method"] == "Network.requestWillBeSent"}
    assert {own for own in asked if not own.startswith("data:")} == {page.as_uri()}


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_it_is_as_wide_as_the_window(browser: Any, width: int) -> None:
    see(browser, "light", width)
    whole = browser.execute_script("return document.documentElement.scrollWidth")
    assert whole == browser.execute_script("return document.documentElement.clientWidth") == width
    inside = "return Array.from(document.querySelectorAll('.scrolls'), own => own.scrollWidth > own.clientWidth)"
    assert any(browser.execute_script(inside)) == (width < 1600), "wide tables scroll by themselves where they must"


@pytest.mark.parametrize("by_keyboard", [False, True])
def test_a_column_sorts_as_numbers_and_turns_round(browser: Any, by_keyboard: bool) -> None:
    peers = table(browser, "Time to 1 % of the best <objective>")
    head = peers.find_elements(By.CSS_SELECTOR, "th")[1]
    button = head.find_element(By.CSS_SELECTOR, "button")
    skipped = "skipped: <not> installed & no wheel"
    assert head.get_attribute("aria-sort") == "none"
    for way, expected in (
        ("ascending", ["0.61", "9.25", "10.5", skipped]),
        ("descending", [skipped, "10.5", "9.25", "0.61"]),
        ("ascending", ["0.61", "9.25", "10.5", skipped]),
    ):
        if by_keyboard:
            button.send_keys(Keys.ENTER if way == "ascending" else Keys.SPACE)
        else:
            button.click()
        assert head.get_attribute("aria-sort") == way
        assert column(peers, 1) == expected


def test_equal_rows_stay_in_order_and_empty_ones_go_last(browser: Any) -> None:
    long = table(browser, "Distance to the sequential run")
    heads = long.find_elements(By.CSS_SELECTOR, "th button")
    heads[2].click()
    heads[1].click()
    shown = list(zip(column(long, 1), map(int, column(long, 2)), strict=True))
    assert all(one <= other for one, other in pairwise((name.lower(), threads) for name, threads in shown))
    assert [own.get_attribute("aria-sort") for own in long.find_elements(By.CSS_SELECTOR, "th")].count("none") == 5
    paper = table(browser, "The paper's table, on twins")
    speedup = paper.find_elements(By.CSS_SELECTOR, "th button")[8]
    for _ in range(2):
        speedup.click()
        assert column(paper, 0)[-1] == "kdda twin"


def test_it_follows_the_system_until_the_reader_chooses(browser: Any) -> None:
    body = "return getComputedStyle(document.body).backgroundColor"
    light = browser.execute_script(body)
    see(browser, "dark", 1600)
    dark = browser.execute_script(body)
    assert brightness(dark) < 0.05 < 0.8 < brightness(light)
    button = browser.find_element(By.CSS_SELECTOR, "#theme button")
    assert button.accessible_name == "Switch to light colours"
    button.click()
    assert browser.execute_script(body) == light
    button.click()
    assert browser.execute_script(body) == dark
    see(browser, "light", 1600)
    assert browser.execute_script(body) == dark


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out(browser: Any, theme: str) -> None:
    see(browser, theme, 1600)
    for selector in ("section p", "td", "th button", "td.good", "td.bad", "pre code", "p code", ".note", "dt",
                     "header p", "nav li:last-child a", ".badge.bad", ".files a", "footer p"):  # fmt: skip
        assert contrast(browser, selector) >= 4.5, selector


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_each_figure_is_seen_once_in_its_theme(browser: Any, theme: str, width: int) -> None:
    see(browser, theme, width)
    charts = browser.find_elements(By.CSS_SELECTOR, "figure.chart")
    assert len(charts) == 3
    for chart in charts:
        (seen,) = [own for own in chart.find_elements(By.CSS_SELECTOR, "svg") if own.is_displayed()]
        assert seen.size["width"] >= 0.5 * 6 * 96
        assert seen.size["height"] > 150
        assert seen.accessible_name
        ground = seen.find_element(By.CSS_SELECTOR, "path").value_of_css_property("fill")
        assert (brightness(ground) > 0.5) == (theme == "light")


def test_a_command_can_be_copied(browser: Any) -> None:
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]})
    (button, *_) = browser.find_elements(By.CSS_SELECTOR, "button.copy")
    button.click()
    WebDriverWait(browser, 30, poll_frequency=0.05).until(lambda _: button.text == "Copied")
    assert browser.execute_script("return navigator.clipboard.readText()") == "symsgd bench quick --size quick"


def test_print_is_light_and_whole(browser: Any) -> None:
    emulate(browser, "dark", "print")
    assert contrast(browser, "td") >= 4.5
    assert brightness(browser.execute_script("return getComputedStyle(document.querySelector('td')).color")) < 0.1
    assert not browser.find_element(By.CSS_SELECTOR, "nav").is_displayed()
    assert browser.find_element(By.CSS_SELECTOR, ".on-light").is_displayed()
