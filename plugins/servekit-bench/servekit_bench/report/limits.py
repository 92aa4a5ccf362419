# SPDX-License-Identifier: Apache-2.0
"""The limit of a target in words, and whether something else limited the load."""

from collections.abc import Sequence

from servekit_bench.report.figures import SaturationFigures, TargetFigures
from servekit_bench.report.words import connections_words, milliseconds, rate_words

__all__ = ["generator_warning", "limit_warnings", "saturation_lines", "step_rows"]


def step_rows(found: SaturationFigures) -> tuple[Sequence[str], list[list[str]]]:
    """Return the head and the rows of the steps of a search for the saturation."""
    head = ("load", "requests/s", "p50", "p99", "failed", "kept")
    return head, [
        [
            f"{rate_words(step.rate)} requests/s"
            if step.rate
            else connections_words(step.connections),
            rate_words(step.requests_per_s),
            milliseconds(step.p50_ms),
            milliseconds(step.p99_ms),
            f"{step.failed_share:.1%}",
            "yes" if step.is_kept else "no",
        ]
        for step in found.steps
    ]


def saturation_lines(found: SaturationFigures) -> list[str]:
    """Say in sentences which load the target can take."""
    if found.capacity is None:
        return [f"{found.name}: the search ended before it found anything"]
    most = found.capacity
    rate, connections = rate_words(most.requests_per_s), connections_words(most.connections)
    lines = [f"{found.name}: the most in a closed loop is {rate} requests/s, with {connections}"]
    bound = f" within {milliseconds(found.p99_ms)}" if found.p99_ms else ""
    if found.highest and found.highest.rate:
        lines.append(
            f"it keeps up with {rate_words(found.highest.rate)} requests/s{bound}: "
            f"p50 {milliseconds(found.highest.p50_ms)}, p99 {milliseconds(found.highest.p99_ms)}"
        )
    elif any(step.rate for step in found.steps):
        lines.append(f"none of the rates was kept{bound}")
    return lines


def limit_warnings(found: SaturationFigures) -> list[str]:
    """Say whether something else than the server limited the load in the steps of a search."""
    limits = {step.limit for step in found.steps}
    if "generator" in limits:
        return ["the load generator itself was the limit in some steps; try --processes 2"]
    if "machine" in limits:
        return ["the load generator shares a busy machine with the server, and waited for cores"]
    return []


def generator_warning(target: TargetFigures) -> str | None:
    """Say in a sentence that something else than the server limited the load, if that is so."""
    limited = [each.generator for each in target.rounds if each.generator.limit]
    if not limited:
        return None
    if any(each.limit == "generator" for each in limited):
        busiest = max(limited, key=lambda each: each.cpu)
        return (
            f"{target.name}: the load generator itself is the limit (its busiest process used "
            f"{busiest.cpu:.0%} of a core): the server may be faster; try --processes "
            f"{busiest.processes + 1}"
        )
    waited = max(each.cpu_wait for each in limited)
    return (
        f"{target.name}: the load generator waited for a core {waited:.0%} of the time: "
        "it shares a busy machine with the server, and latencies contain that wait"
    )
