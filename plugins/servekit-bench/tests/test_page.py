# SPDX-License-Identifier: Apache-2.0
"""Plots, and the report as an HTML file."""

import argparse
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from servekit_bench.command import _show
from servekit_bench.report.bench_page import bench_page
from servekit_bench.report.figures import TargetFigures
from servekit_bench.report.page import html_page, html_table, paragraph
from servekit_bench.report.plot import Axis, Guide, Plot, PlotSeries

from servekit.errors import StartupError

from .measurements import BUSY, measured
from .test_figures import report

LINE = PlotSeries("a", [(1.0, 10.0), (2.0, 20.0), (4.0, 5.0)])


def plot(*series, x=Axis("s"), y=Axis("ms"), guides=()):  # noqa: B008 - frozen
    return Plot("times", x, y, list(series), guides)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (999.6, "1000"), (9999.6, "10k"), (999_600, "1M"), (2.5e6, "2.5M")],
)
def test_points_are_noted_without_exponents(value, text):
    found = plot(PlotSeries("a", [(1.0, value), (2.0, 1.0)]))

    assert f"1: {text}</title>" in found.svg()


def drawn(found: Plot) -> ElementTree.Element:
    return ElementTree.fromstring(found.svg())


def test_a_line_goes_from_left_to_right():
    (line,) = drawn(plot(LINE)).iter("polyline")

    across = [float(each.split(",")[0]) for each in line.get("points").split()]
    assert across == sorted(across)
    assert across[0] == 72
    assert across[-1] == 704


def test_equal_ratios_are_equally_far_apart_on_a_logarithmic_axis():
    series = PlotSeries("a", [(1.0, 1.0), (10.0, 1.0), (100.0, 1.0)])

    circles = [
        float(each.get("cx")) for each in drawn(plot(series, x=Axis("", True))).iter("circle")
    ]

    assert circles[1] - circles[0] == pytest.approx(circles[2] - circles[1], abs=0.2)


def test_points_say_their_numbers():
    titles = [each.text for each in drawn(plot(LINE)).iter("title")]

    assert titles == ["a, 1: 10", "a, 2: 20", "a, 4: 5"]


def test_several_series_are_named_and_coloured():
    found = drawn(plot(LINE, PlotSeries("b", [(1.0, 1.0)], kind="dots", hue=1)))

    assert {"a", "b"} <= {each.text for each in found.iter("text")}
    assert {each.get("class") for each in found.iter("circle")} == {"s0", "s1"}


def test_bars_stand_on_the_axis():
    found = drawn(plot(PlotSeries("", [(0.0, 4.0), (1.0, 2.0)], kind="bars"), y=Axis("", low=0)))

    bottoms = {float(each.get("y")) + float(each.get("height")) for each in found.iter("rect")}
    assert bottoms == {272.0}


def test_a_limit_is_a_line_within_the_plot():
    found = drawn(plot(LINE, guides=[Guide(40.0, "limit"), Guide(3.0, "here", is_vertical=True)]))

    assert [each.get("class") for each in found.iter("line")].count("guide") == 2
    assert {"limit", "here"} <= {each.text for each in found.iter("text")}


@pytest.mark.parametrize("points", [[(1.0, 1.0)], [(0.0, 0.0), (0.0, 0.0)]], ids=["one", "equal"])
@pytest.mark.parametrize("is_log", [False, True], ids=["linear", "log"])
def test_few_points_can_be_drawn(points, is_log):
    axis = Axis("", is_log)

    assert len(list(drawn(plot(PlotSeries("", points), x=axis, y=axis)).iter("circle"))) >= 1


def test_a_plot_without_points_is_empty():
    assert plot(PlotSeries("a", [])).svg() == ""


def test_text_is_escaped():
    text = html_page("<a>", [paragraph("<b>"), html_table(("<c>",), [("<d>",)])])

    assert not re.search("<[abcd]>", text)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset")]
        assert tag != "script"


def test_the_report_loads_nothing():
    target = TargetFigures.of("<digits>", "http://x/y", 1, [measured(failures=(BUSY,))])
    tags = Tags()

    tags.feed(bench_page(report(target)))

    assert tags.links == []


def test_the_report_has_tables_and_plots():
    target = TargetFigures.of("digits", "http://x/y", 1, [measured(failures=(BUSY,))])

    text = bench_page(report(target))

    assert text.count("<svg") == 4
    assert "queue is full" in text
    assert "prefers-color-scheme: dark" in text


def test_a_report_without_answers_can_be_written():
    assert "<table>" in bench_page(report(TargetFigures.of("a", "u", 1, [measured([])])))


def test_figures_are_not_lost_if_the_page_cannot_be_written(tmp_path, capsys):
    done = report(TargetFigures.of("a", "http://h", 1, [measured(failures=(BUSY,))]))

    with pytest.raises(StartupError, match="--html"):
        _show(argparse.Namespace(json=False, html=tmp_path), done)
    assert "requests/s" in capsys.readouterr().out
