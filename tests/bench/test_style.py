"""The looks of charts: told apart in both themes, by everybody."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from symsgd.bench.report.base import Theme
from symsgd.bench.report.style import KNOWN, OTHERS, SURFACES, colour_of, figure, legend, line_of, marker_of

STRATEGIES = ("sequential", "auto", "Hogwild!", "MR-SymSGD", "Async-SymSGD", "averaging")
THEMES: tuple[Theme, ...] = ("light", "dark")

# what people without one kind of cone see, in linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)
SIGHT = {
    "all colours": np.eye(3),
    "no long waves": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.00388, -0.048116, 1.051998]],
    "no middle waves": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no short waves": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}  # fmt: skip


def linear(colour: str) -> NDArray[np.float64]:
    shares = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """As WCAG has it."""
    light, dark = sorted((float(linear(own) @ [0.2126, 0.7152, 0.0722]) for own in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.maximum(to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089], 1e-6))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("sight", SIGHT)
def test_strategies_are_told_apart(theme: Theme, sight: str) -> None:
    seen = {name: lab(np.asarray(SIGHT[sight]) @ linear(colour_of(name, theme))) for name in STRATEGIES}
    for one, other in combinations(STRATEGIES, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 20, f"{one} and {other} look alike"


def test_strategies_are_told_apart_without_colour() -> None:
    assert len({marker_of(name) for name in STRATEGIES}) == len(STRATEGIES)


@pytest.mark.parametrize("theme", THEMES)
def test_colours_stand_out(theme: Theme) -> None:
    surface = SURFACES[theme]
    for look in (*KNOWN.values(), *OTHERS):
        assert contrast(look.dark if theme == "dark" else look.light, surface.page) >= 3
    for text in (surface.ink, surface.faint, surface.accent, surface.good, surface.bad):
        for ground in (surface.page, surface.around):
            assert contrast(text, ground) >= 4.5


def test_a_name_keeps_its_colour() -> None:
    assert colour_of("Hogwild!", "light") == colour_of("hogwild", "light")
    assert colour_of("symsgd auto", "light") == colour_of("auto", "light")
    assert colour_of("auto (curvature)", "dark") == colour_of("curvature", "dark")
    assert colour_of("scikit-learn saga", "light") != colour_of("scikit-learn SGD", "light")
    assert colour_of("something of its own", "light") == "#99004d", "the same in every run, on every machine"


@pytest.mark.parametrize("theme", THEMES)
def test_a_figure_has_the_colours_of_its_theme(theme: Theme) -> None:
    made, axes = figure(theme, columns=2, width=9, height=3)
    from matplotlib.colors import to_hex

    assert len(axes) == 2
    assert tuple(made.get_size_inches()) == (9, 3)
    assert to_hex(made.get_facecolor()) == SURFACES[theme].page
    for own in axes:
        own.plot([1, 2], [3, 4], label="auto", **line_of("auto", theme))
        assert to_hex(own.get_facecolor()) == SURFACES[theme].page
    legend(made, theme)
    assert [text.get_text() for text in made.legends[0].get_texts()] == ["auto"], "once, though both axes have it"


def test_no_lines_no_legend() -> None:
    made, _ = figure("light")
    legend(made, "light")
    assert not made.legends
