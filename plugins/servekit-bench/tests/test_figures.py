# SPDX-License-Identifier: Apache-2.0
"""The numbers of a report, and their text."""

import msgspec
import numpy as np
import pytest
from servekit_bench.load import ClosedLoop, OpenLoop
from servekit_bench.load.measurement import StreamTimes, percentile
from servekit_bench.report.bench_report import BenchReport
from servekit_bench.report.distributions import histogram, percentile_curve
from servekit_bench.report.figures import (
    LoadFigures,
    Percentiles,
    TargetFigures,
)
from servekit_bench.report.limits import generator_warning
from servekit_bench.report.table import as_text
from servekit_bench.report.words import load_words, milliseconds, rate_words, size

from .measurements import BUSY, measured, used


def report(*targets, load=ClosedLoop(2), **more):  # noqa: B008 - frozen
    return BenchReport(
        began="2026-01-31T12:00:00+00:00",
        machine="host, 2 cores",
        load=LoadFigures.of(load),
        duration_s=1.0,
        warmup_s=0.5,
        targets=list(targets),
        **({"comparison": None, "saturation": None, "warnings": [], "was_stopped": False} | more),
    )


def figures(*rounds, name="digits.mar"):
    return TargetFigures.of(name, "http://127.0.0.1:1/digits/predict", 1, list(rounds))


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (50, 50), (50.1, 51), (99, 99), (99.9, 100), (100, 100)]
)
def test_a_percentile_is_a_value_that_was_measured(percent, expected):
    assert percentile(np.arange(1.0, 101.0), percent) == expected


def test_percentiles_are_in_milliseconds_and_missing_without_values():
    assert Percentiles.of(np.array([0.001, 0.003])).mean == pytest.approx(2.0)
    assert Percentiles.of(np.array([])).p99 is None


def test_every_latency_is_in_one_bin_of_the_histogram():
    values = np.sort(np.random.default_rng(1).lognormal(-6, 1, 5000))

    bins = histogram(values)

    assert sum(each.count for each in bins) == 5000
    assert histogram(np.full(7, 0.001))[0].count == 7
    assert histogram(np.array([])) == []


def test_the_curve_of_percentiles_rises_to_the_slowest():
    curve = percentile_curve(np.arange(1.0, 1001.0))

    assert curve == sorted(curve)
    assert curve[0][0] == 0
    assert curve[-1] == (99.9, 999e3)


def test_figures_of_rounds_have_a_median_and_a_spread():
    target = figures(measured([1]), measured([2]), measured([9]))

    spread = target.spread(lambda each: each.latency_ms.p50)

    assert (spread.median, spread.low, spread.high) == pytest.approx((2, 1, 9))


def test_a_report_is_json():
    found = msgspec.json.decode(msgspec.json.encode(report(figures(measured([])))))

    assert found["targets"][0]["rounds"][0]["latency_ms"]["p99"] is None
    assert found["load"] == {
        "kind": "closed loop",
        "connections": 2,
        "rate": None,
        "arrivals": None,
    }


def test_the_text_has_a_row_for_each_target_and_its_failures():
    text = as_text(report(figures(measured(failures=(BUSY,), unanswered=2))))

    assert "closed loop, 2 connections, 1 s" in text
    assert "digits.mar" in text
    assert "2 ms" in text
    assert "3 failed, 429: queue is full" in text
    assert "2 had no answer" in text


def test_the_text_describes_streams():
    times = np.array([0.01, 0.02])
    seen = measured(streams=StreamTimes(first_outputs_s=times, gaps_s=times, outputs=6))

    text = as_text(report(figures(seen), load=OpenLoop(5.0)))

    assert "open loop, 5 requests/s" in text
    assert "2 streams, 6 outputs/s" in text
    assert "first output:     p50 10 ms" in text


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (measured(generator=used(cpu=0.95)), "the load generator itself is the limit"),
        (measured(generator=used(cpu_wait=0.4)), "waited for a core 40%"),
    ],
    ids=["generator", "machine"],
)
def test_the_report_says_when_the_generator_is_the_limit(seen, words):
    assert words in generator_warning(figures(seen))


def test_a_generator_with_time_to_spare_is_not_mentioned():
    assert generator_warning(figures(measured())) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0123, "12.3 us"), (1.5, "1.5 ms"), (999.6, "1 s"), (1234.0, "1.23 s")],
)
def test_times_are_shown_in_a_unit_that_fits(value, text):
    assert milliseconds(value) == text


def test_sizes_are_shown_in_a_unit_that_fits():
    assert [size(each) for each in (5, 1500, 2e6, 3e9)] == ["5 B", "1.5 kB", "2 MB", "3 GB"]
    assert [size(each) for each in (999.5, 999_999, 12345e9)] == ["1 kB", "1 MB", "12,345 GB"]


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0.5, "0.5"), (99.94, "99.9"), (99.96, "100"), (12345.0, "12,345"), (1e6, "1,000,000")],
)
def test_rates_are_shown_without_exponents(rate, text):
    assert rate_words(rate) == text


def test_a_load_of_a_million_is_shown_in_full():
    words = load_words(LoadFigures.of(OpenLoop(1_234_567.0)))

    assert words.startswith("open loop, 1234567 requests/s")


def test_the_rates_of_a_slow_target_have_decimals():
    rounds = [measured(duration_s=seconds) for seconds in (6.0, 12.0)]

    assert "0.375 (0.25 to 0.5)" in as_text(report(figures(*rounds)))
