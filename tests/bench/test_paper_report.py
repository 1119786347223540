"""The paper's tables and figures, from rows made by hand."""

from dataclasses import replace

import pytest

from symsgd.bench.protocols.paper import ASYNC, AUTO, HOGWILD, MAP_REDUCE, SEQUENTIAL
from symsgd.bench.records import Record, Row, Run
from symsgd.bench.report.base import Chart, Table
from symsgd.bench.report.paper import PAPER, sections

RUN = Run.begin("symsgd bench paper --size tiny", "tiny")
SECONDS = {SEQUENTIAL: 8.0, HOGWILD: 10.0, ASYNC: 4.0, MAP_REDUCE: 16.0, AUTO: 2.0}


def row(part, system, threads=1, measures=None, **fields):
    return Row("paper", part, "rcv1 twin", system, threads, measures=measures or {}, **fields)


def run_of(system, threads, repeat, seconds):
    settings = {"step_size": 0.1, "passes": 10}
    if system == SEQUENTIAL:
        settings, threads = settings | {"beside": threads}, 1
    elif system in (ASYNC, MAP_REDUCE):
        settings |= {"block_size": 64, "k": 7}
    off = 5e-4 if system == MAP_REDUCE else 0.0
    measures = {"seconds": seconds, "auc": 0.97 + off, "difference": off, "holds": float(not off), "distance": off}
    return row("speedup", system, threads, measures, settings=settings, repeat=repeat)


def made():
    """Two repeats whose mean is SECONDS at four threads and twice that at one."""
    rows = [
        row("step size", SEQUENTIAL, settings={"step_size": 0.1}, measures={"auc": 0.97, "seconds": 1.0}),
        row("step size", SEQUENTIAL, settings={"step_size": 1.0}, reason="diverges in pass 1"),
        row("data", SEQUENTIAL, settings={"step_size": 0.1}, measures={
            "features": 47153, "rows": 1562, "nonzeros": 100, "nonzeros_a_row": 74.7, "nfnz": 0.226, "auc": 0.97,
        }),
    ]  # fmt: skip
    for threads, factor in ((1, 2.0), (4, 1.0)):
        for repeat, share in enumerate((0.5, 1.5)):
            for system, seconds in SECONDS.items():
                own = 1.0 if system == SEQUENTIAL else factor
                rows.append(run_of(system, threads, repeat, own * share * seconds))
    runs = {r.system: r for r in rows if r.part == "speedup" and r.threads == 4}
    rows += [replace(own, part="configuration", repeat=0) for own in runs.values()]
    other = runs[ASYNC].settings | {"block_size": 1024}
    rows.append(row("configuration", ASYNC, 4, settings=other, reason="diverges in pass 2"))
    for matrix, values in (("M", (0.7, 0.9)), ("M − I", (0.3, 0.1))):
        for step_size in (0.1, 0.01):
            settings = {"step_size": step_size, "trained_with": 0.1, "block_size": 64}
            found = {str(rank): value for rank, value in enumerate(values, 1)}
            rows.append(row("singular values", matrix, settings=settings, measures=found))
    return rows


def shown(rows):
    return sections([Record(RUN, own) for own in rows])


def tables(rows):
    return {item.title: item for section in shown(rows) for item in section.items if isinstance(item, Table)}


def charts(rows):
    return [item for section in shown(rows) for item in section.items if isinstance(item, Chart)]


def lines(table, *wanted):
    """Lines as dictionaries of texts, those with the wanted texts in them."""
    found = [dict(zip(table.columns, (cell.text for cell in line), strict=True)) for line in table.rows]
    return [line for line in found if set(wanted) <= set(line.values())]


def test_our_figures_stand_beside_the_papers():
    (line,) = lines(tables(made())["Data sets, and the AUC of sequential SGD at its best constant step size"])
    assert (line["features"], line["features, paper"]) == ("47,153", "47,153")
    assert (line["NFNZ"], line["NFNZ, paper"]) == ("0.226", "0.219")
    assert (line["AUC logistic"], line["AUC logistic, paper"]) == ("0.9700", "0.9586")
    assert (line["AUC linear"], line["AUC linear, paper"]) == ("", "0.9590")


def test_speedups_are_ratios_of_means_at_the_most_threads():
    (line,) = lines(tables(made())["How many times faster"])
    assert line["threads"] == "4"
    assert (line["Async over Hogwild!"], line["paper, 16 threads"], line["auto over Hogwild!"]) == (
        "2.50", "2.60", "5.00",
    )  # fmt: skip
    over = [line[f"{system} over sequential"] for system in (HOGWILD, ASYNC, MAP_REDUCE, AUTO)]
    assert over == ["0.80", "2.00", "0.50 ✗", "4.00"]


def test_the_table_of_runs_has_all_thread_counts_and_says_what_holds():
    table = tables(made())["All runs, by threads"]
    (line,) = lines(table, AUTO, "1")
    assert (line["seconds"], line["over sequential"], line["holds"]) == ("4", "2.00", "2 of 2")
    (line,) = lines(table, MAP_REDUCE, "4")
    assert (line["AUC difference"], line["holds"]) == ("+5.0e-04", "0 of 2")


def test_a_system_of_which_one_repeat_failed_has_no_speedup():
    rows = [
        replace(own, measures={}, reason="diverges in pass 3")
        if (own.part, own.system, own.threads, own.repeat) == ("speedup", ASYNC, 4, 1)
        else own
        for own in made()
    ]
    (line,) = lines(tables(rows)["How many times faster"])
    assert line[f"{ASYNC} over sequential"] == "failed"
    assert line["Async over Hogwild!"] == ""
    assert lines(tables(rows)["Failures and skips"], ASYNC, "speedup", "diverges in pass 3")
    assert lines(tables(rows)["All runs, by threads"], ASYNC, "failed", "1 of 2")


def test_chosen_configurations_say_whether_they_hold_and_what_failed():
    table = tables(made())["Chosen configurations"]
    (line,) = lines(table, ASYNC)
    assert (line["block"], line["k"], line["step size"], line["holds"]) == ("64", "7", "0.1", "yes")
    assert (line["configurations that hold"], line["that fail"]) == ("1 of 2", "1")
    (line,) = lines(table, MAP_REDUCE)
    assert line["holds"] == "no, the nearest"


def test_step_sizes_that_fail_are_in_the_table():
    table = tables(made())["Step sizes of the sequential run"]
    assert lines(table, "0.1", "0.97000", "best")
    assert lines(table, "1", "diverges in pass 1")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_draw_what_the_rows_say(theme):
    pytest.importorskip("matplotlib")
    found = {chart.name: chart for chart in charts(made())}
    assert set(found) == {
        "paper-speedup-log-loss", "paper-singular-values-rcv1-twin-combiner", "paper-singular-values-rcv1-twin-rest",
    }  # fmt: skip
    (panel,) = found["paper-speedup-log-loss"].draw(theme).axes
    drawn = {line.get_label(): line for line in panel.lines}
    assert list(drawn[AUTO].get_xdata()) == [1, 4]
    assert list(drawn[AUTO].get_ydata()) == pytest.approx([2.0, 4.0])
    assert "symsgd, auto 4.00" in found["paper-speedup-log-loss"].text
    both = found["paper-singular-values-rcv1-twin-rest"].draw(theme).axes
    assert [panel.get_title() for panel in both] == [
        "logistic, step size 0.1 (the runs')",
        "logistic, step size 0.01 (the paper's)",
    ]
    assert list(both[0].lines[0].get_ydata()) == [0.3, 0.1]


def test_rows_that_are_missing_leave_a_smaller_report():
    rows = made()
    assert sections([]) == []
    for part in {own.part for own in rows}:
        for chart in charts([own for own in rows if own.part != part]):
            chart.draw("light")
    for count in range(1, len(rows)):  # a run that was stopped
        assert shown(rows[:count])


def test_a_run_of_skips_alone_says_why():
    skipped = Row("paper", "data", "nowhere", "", reason="no folder of data sets given (--data-dir)")
    assert lines(tables([skipped])["Failures and skips"], "nowhere", skipped.reason)


def test_other_sets_have_no_figures_of_the_paper():
    rows = [replace(own, data="a9a") for own in made()]
    (line,) = lines(tables(rows)["How many times faster"])
    assert line["paper, 16 threads"] == ""
    assert set(PAPER) == {"rcv1", "adclick", "epsilon", "url", "criteo", "webspam"}
