# SPDX-License-Identifier: Apache-2.0
"""What a run says at its end: Markdown for people, JSON for programs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from tests.benchmarks.figures import Sample, Spread, comparable, levels, ratio, spread
from tests.benchmarks.machine import Machine
from tests.benchmarks.rounds import Plan
from tests.benchmarks.servers import Server

HEADINGS: Final = (
    "connections",
    "server",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "errors",
    "CPU s per 1,000 requests",
)


def markdown(
    machine: Machine, plan: Plan, servers: Mapping[Server, str], samples: Sequence[Sample]
) -> str:
    """Return the whole report. *servers* maps each to its version."""
    versions = ", ".join(f"{server.title} ({version})" for server, version in servers.items())
    lines = [
        f"Machine: {machine.line()}",
        f"Servers: {versions}",
        f"{plan.rounds} rounds of {plan.seconds} s per cell; median (lowest–highest)",
        "",
        *_table(HEADINGS, _figures(list(servers), samples)),
    ]
    if comparable(samples):
        headings = ["requests/s", *(f"c={level}" for level in levels(samples))]
        lines += ["", *_table(headings, _ratios(samples))]
    return "\n".join(lines) + "\n"


def as_json(
    machine: Machine, plan: Plan, servers: Mapping[Server, str], samples: Sequence[Sample]
) -> str:
    """Return everything that was measured, and the ratios."""
    ratios = [
        {"title": c.title, "server": c.server, "against": c.against, "connections": level}
        | (asdict(value) if (value := ratio(samples, c, level)) else {"median": None})
        for c in comparable(samples)
        for level in levels(samples)
    ]
    document = {
        "machine": asdict(machine),
        "plan": asdict(plan),
        "servers": {s.key: {"title": s.title, "version": v} for s, v in servers.items()},
        "samples": [asdict(sample) for sample in samples],
        "ratios": ratios,
    }
    return json.dumps(document, indent=2) + "\n"


def _figures(servers: Sequence[Server], samples: Sequence[Sample]) -> Iterator[list[str]]:
    for level in levels(samples):
        for server in servers:
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


def _ratios(samples: Sequence[Sample]) -> Iterator[list[str]]:
    for comparison in comparable(samples):
        cells = (ratio(samples, comparison, level) for level in levels(samples))
        yield [comparison.title, *(_text(cell, ".2f") if cell else "–" for cell in cells)]


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
