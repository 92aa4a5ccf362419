# SPDX-License-Identifier: Apache-2.0
"""Which charts a run gives: one for each table of the report. Drawn by ``svg.py``."""

from collections.abc import Callable, Sequence

from tests.benchmarks.cases import Case
from tests.benchmarks.figures import Spread, levels, of_case
from tests.benchmarks.open_loop import SHARES
from tests.benchmarks.results import Results, S, spread_of
from tests.benchmarks.svg import Bar, Chart, Panel

KINDS = {"servekit": "own", "nginx": "limit"}


def draw(results: Results) -> dict[str, Chart]:
    """Return the charts by file name."""
    charts = {case.key: closed(results, case) for case in results.cases}
    if results.open:
        charts["open-loop"] = open_loop(results)
    if results.idle:
        charts["start-up-and-memory"] = idle(results)
    return charts


def closed(results: Results, case: Case) -> Chart:
    """Draw requests/s at each number of connections."""
    samples = of_case(results.closed, case.key)
    panels = [
        Panel(
            f"{level} connection{'s' * (level > 1)}",
            _bars(
                results,
                [s for s in samples if s.connections == level],
                lambda s: s.requests_per_s,
                ",.0f",
            ),
        )
        for level in levels(samples)
    ]
    return Chart(case.title, f"requests/s, more is better; {_rounds(results)}", panels)


def open_loop(results: Results) -> Chart:
    """Draw the 99th percentile at each share of a server's own capacity."""
    panels = [
        Panel(
            f"at {share:.0%} of its capacity",
            _bars(
                results, [s for s in results.open if s.share == share], lambda s: s.p99_ms, ".3g"
            ),
        )
        for share in SHARES
    ]
    what = "99th percentile of latency in ms, less is better; open loop, from the moment due"
    return Chart("Latency at a fixed rate, small JSON", f"{what}; {_rounds(results)}", panels)


def idle(results: Results) -> Chart:
    """Draw start-up time and idle memory."""
    panels = [
        Panel(
            "seconds from start to first answer",
            _bars(results, results.idle, lambda s: s.start_s, ".2f"),
        ),
        Panel("MB (PSS) of the idle tree", _bars(results, results.idle, lambda s: s.pss_mb, ".0f")),
    ]
    return Chart("Start-up and memory", f"less is better; {_rounds(results)}", panels)


def _bars(
    results: Results, samples: Sequence[S], figure: Callable[[S], float], form: str
) -> list[Bar]:
    """Return one bar for each server that has samples, in the order of the report."""
    bars = []
    for key, title in results.titles().items():
        found = spread_of(samples, key, figure)
        if found is not None:
            bars.append(_bar(key, title, found, form))
    return bars


def _bar(key: str, title: str, found: Spread, form: str) -> Bar:
    return Bar(title, found.median, format(found.median, form), KINDS.get(key, ""))


def _rounds(results: Results) -> str:
    count = results.plan.rounds
    return f"median of {count} rounds" if count > 1 else "one round"
