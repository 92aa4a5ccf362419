# SPDX-License-Identifier: Apache-2.0
"""What a run says at its end, as Markdown."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.benchmarks.cases import Case
from tests.benchmarks.figures import Spread, comparable, levels, of_case, ratio, spread
from tests.benchmarks.open_loop import CONNECTIONS, SHARES, OpenSample
from tests.benchmarks.results import Results

CLOSED: Final = (
    "connections",
    "server",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "errors",
    "CPU s per 1,000 requests",
)
OPEN: Final = (
    "load",
    "server",
    "requests/s asked",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "max ms",
    "errors",
    "client late, p99 ms",
)
IDLE: Final = ("server", "start to first answer, s", "PSS MB", "processes")
VERDICTS: Final = {None: "not measured", True: "pass", False: "fail"}


def markdown(results: Results, judged: Sequence[dict[str, Any]]) -> str:
    """Return the whole report."""
    plan = results.plan
    versions = ", ".join(f"{s.title} ({version})" for s, version in results.servers.items())
    lines = [
        f"Machine: {results.machine.line()}",
        "",
        f"Servers: {versions}",
        "",
        f"{plan.rounds} rounds, {plan.seconds} s per measurement; median (lowest–highest)",
        "",
    ]
    for case in results.cases:
        lines += [f"## Closed loop: {case.title}", "", *_closed(results, case), ""]
    if results.open:
        lines += ["## Open loop: small JSON at a fixed rate", "", *_open(results), ""]
    if results.idle:
        lines += ["## Start-up and memory", "", *_table(IDLE, _idle_rows(results)), ""]
    if results.left_out:
        lines += ["## Left out", "", *_left_out(results), ""]
    return "\n".join([*lines, "## Targets", "", *targets(judged)]) + "\n"


def targets(judged: Sequence[dict[str, Any]]) -> list[str]:
    """Return the targets that servekit wants to reach, each with its verdict."""
    rows = (
        [
            target["title"],
            target["wanted"],
            "–" if target["measured"] is None else f"{target['measured']:.2f}",
            VERDICTS[target["is_reached"]],
        ]
        for target in judged
    )
    return _table(("target", "wanted", "measured", "verdict"), rows)


def _closed(results: Results, case: Case) -> Iterator[str]:
    yield from _table(CLOSED, _closed_rows(results, case))
    samples = of_case(results.closed, case.key)
    if comparable(samples):
        headings = ["requests/s", *(f"c={level}" for level in levels(samples))]
        yield ""
        yield from _table(headings, _ratio_rows(results, case))


def _closed_rows(results: Results, case: Case) -> Iterator[list[str]]:
    samples = of_case(results.closed, case.key)
    measured = {sample.server for sample in samples}
    for level in levels(samples):
        for server in (server for server in results.servers if server.key in measured):
            at = (samples, server.key, level)
            errors = sum(s.errors for s in samples if (s.server, s.connections) == at[1:])
            yield [
                str(level),
                server.title,
                _text(spread(*at, lambda s: s.requests_per_s), ",.0f"),
                _text(spread(*at, lambda s: s.p50_ms), ".3g"),
                _text(spread(*at, lambda s: s.p99_ms), ".3g"),
                f"{errors:,}",
                _text(spread(*at, lambda s: s.cpu_s_per_1000), ".4f"),
            ]


def _ratio_rows(results: Results, case: Case) -> Iterator[list[str]]:
    samples = of_case(results.closed, case.key)
    for comparison in comparable(samples):
        cells = (ratio(samples, comparison, level) for level in levels(samples))
        yield [comparison.title, *(_text(cell, ".2f") if cell else "–" for cell in cells)]


def _open(results: Results) -> Iterator[str]:
    yield (
        f"Shares of the capacity: what the same client gets from the same server with "
        f"{CONNECTIONS} connections always busy. Latency runs from the moment a request was due."
    )
    yield ""
    yield from _table(OPEN, _open_rows(results))


def _open_rows(results: Results) -> Iterator[list[str]]:
    titles = results.titles()
    measured = {sample.server for sample in results.open}
    for share in SHARES:
        for key in (key for key in titles if key in measured):
            samples = [s for s in results.open if (s.server, s.share) == (key, share)]
            yield [f"{share:.0%}", titles[key], *_open_cells(samples)]


def _open_cells(samples: Sequence[OpenSample]) -> list[str]:
    return [
        _text(Spread.of(s.rate_per_s for s in samples), ",.0f"),
        _text(Spread.of(s.p50_ms for s in samples), ".3g"),
        _text(Spread.of(s.p99_ms for s in samples), ".3g"),
        _text(Spread.of(s.p999_ms for s in samples), ".3g"),
        _text(Spread.of(s.max_ms for s in samples), ".3g"),
        f"{sum(s.errors for s in samples):,}",
        _text(Spread.of(s.late_p99_ms for s in samples), ".3g"),
    ]


def _idle_rows(results: Results) -> Iterator[list[str]]:
    for key, title in results.titles().items():
        samples = [sample for sample in results.idle if sample.server == key]
        if samples:
            yield [
                title,
                _text(Spread.of(s.start_s for s in samples), ".2f"),
                _text(Spread.of(s.pss_mb for s in samples), ".0f"),
                _text(Spread.of(s.processes for s in samples), ".0f"),
            ]


def _left_out(results: Results) -> list[str]:
    return [f"- {left.server}, {left.case}: {left.reason}" for left in results.left_out]


def _text(value: Spread, form: str) -> str:
    """Return ``median (lowest–highest)``; of one round, the value alone."""
    median, low, high = (format(v, form) for v in (value.median, value.low, value.high))
    return median if low == high else f"{median} ({low}–{high})"


def _table(headings: Sequence[str], rows: Iterator[list[str]]) -> list[str]:
    """Return a Markdown table whose columns also line up in a terminal."""
    table = [list(headings), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    table.insert(1, ["-" * width for width in widths])
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in table
    ]
