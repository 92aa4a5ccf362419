# SPDX-License-Identifier: Apache-2.0
"""The outcome of a search as text, and as plain values for JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isfinite
from statistics import median_low
from typing import Any

from servekit_archiver.cli.output import human_seconds

from servekit_bench.report.words import rate_words
from servekit_bench.tune.outcome import Outcome
from servekit_bench.tune.probing import Probe
from servekit_bench.tune.trials import MeasuredCandidate

__all__ = ["as_json", "as_text", "cost_lines", "measured_rows", "verdict"]

POOR_FIT = 0.1  #: median distance from the line above which it says little


def as_text(model: str, outcome: Outcome) -> str:
    """Return the report for a terminal."""
    parts = [
        ["\n  ".join(cost_lines(each)) for each in outcome.probes],
        _table(outcome),
        [f"not tried: {each}" for each in outcome.avoided],
        [verdict(model, outcome), *_settings(model, outcome)],
        [f"confidence: {outcome.confidence}", *(f"  {each}" for each in outcome.all_doubts)],
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines) + "\n"


def verdict(model: str, outcome: Outcome) -> str:
    """Return the result in a sentence."""
    goal, best = outcome.goal, outcome.best
    wanted = f"p99 of {human_seconds(goal.p99_s)}"
    if best is None:
        closest = outcome.closest
        at = f" at {goal.rate:.10g} requests/s" if goal.rate else ""
        if closest is None:
            return f"{model}: nothing was measured"
        found = f"the best was {human_seconds(closest.least_p99_s)}, with {closest.candidate.label}"
        return f"{model}: no settings keep a {wanted}{at}; {found}"
    own, rate = outcome.own, best.rate(goal)
    if goal.rate:
        found = f"{human_seconds(best.p99_s(goal))} at {goal.rate:.10g} requests/s"
        return f"{model}: {best.candidate.label} keeps the {wanted}: {found}"
    before = own.rate(goal) if own is not None else 0.0
    than = f", {rate / before:.2f} times as many as the archive's settings" if before else ""
    found = f"answers {rate_words(rate)} requests/s within a {wanted}{than}"
    return f"{model}: {best.candidate.label} {found}"


def _settings(model: str, outcome: Outcome) -> Iterator[str]:
    chosen = outcome.best or outcome.closest
    if chosen is not None:
        yield ""
        yield "# servekit.toml"
        yield chosen.candidate.to_toml(model).rstrip("\n")


def cost_lines(probe: Probe) -> Iterator[str]:
    """Yield what batches cost, for people."""
    line = probe.curve.line
    told = f"a batch of n costs {human_seconds(line.base_s)} + n * {human_seconds(line.each_s)}"
    if line.error > POOR_FIT:
        told += f" (a line does not fit well: {line.error:.0%})"
    points = ", ".join(f"{size}: {human_seconds(took)}" for size, took in probe.curve.points)
    yield f"{probe.threads_label}: {told}"
    yield f"measured {points}"
    mib = probe.bytes_of(probe.largest) / 2**20
    yield f"{probe.cpu:.1f} cores while it predicts, {mib:.0f} MiB for each replica"


def measured_rows(outcome: Outcome) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Return the head and the rows of the table of measured settings."""
    head = ("settings", "requests/s", "predicted", "p50 ms", "p99 ms")
    return head, [_row(outcome, each) for each in outcome.all_measured]


def _row(outcome: Outcome, each: MeasuredCandidate) -> tuple[str, ...]:
    goal, own = outcome.goal, " (archive)" if each is outcome.own else ""
    rate = goal.rate or each.rate(goal)
    found = [trial for trial in each.trials if trial.rate == rate] or each.trials[-1:]
    shown = rate_words(rate) if each.rate(goal) else "-"
    columns = [trial.p50_s for trial in found], [trial.p99_s for trial in found]
    times = (f"{1e3 * median_low(column):.1f}" for column in columns)
    return (f"{each.candidate.label}{own}", shown, rate_words(each.predicted), *times)


def _table(outcome: Outcome) -> Iterator[str]:
    head, rows = measured_rows(outcome)
    if rows:
        width = max(len(row[0]) for row in rows)
        for row in (head, *rows):
            yield f"{row[0]:<{width}}" + "".join(f"{cell:>12}" for cell in row[1:])


def as_json(model: str, outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as plain values; times are in seconds, sizes in bytes."""
    chosen = outcome.best
    named = chosen or outcome.closest
    return {
        "model": model,
        "goal": {"p99_s": outcome.goal.p99_s, "rate": outcome.goal.rate or None},
        "is_kept": chosen is not None,
        "recommended": asdict(named.candidate) if named is not None else None,
        "settings": named.candidate.to_toml(model) if named is not None else "",
        "verdict": verdict(model, outcome),
        "requests_per_s": chosen.rate(outcome.goal) if chosen else 0.0,
        "confidence": outcome.confidence,
        "doubts": outcome.all_doubts,
        "avoided": outcome.avoided,
        "costs": [_probe_values(each) for each in outcome.probes],
        "measured": [_measured_values(each, outcome) for each in outcome.all_measured],
        "predicted": [
            {**asdict(each.candidate), "requests_per_s": each.rate}
            for each in outcome.predictions[:50]
        ],
        "was_stopped": outcome.was_stopped,
        "seconds": round(outcome.seconds, 1),
    }


def _probe_values(probe: Probe) -> dict[str, Any]:
    line = probe.curve.line
    return {
        "threads": probe.threads or None,
        "base_s": line.base_s,
        "each_s": line.each_s,
        "error": line.error,
        "noise": probe.curve.noise,
        "points": [{"size": size, "seconds": took} for size, took in probe.curve.points],
        "cpu": probe.cpu,
        "replica_bytes": probe.bytes_of(probe.largest),
        "failing_size": probe.failing or None,
        "failing_reason": probe.reason,
    }


def _measured_values(each: MeasuredCandidate, outcome: Outcome) -> dict[str, Any]:
    trials = [{name: _known(value) for name, value in asdict(t).items()} for t in each.trials]
    return {
        **asdict(each.candidate),
        "is_archive": outcome.own is each,
        "requests_per_s": each.rate(outcome.goal),
        "predicted": each.predicted,
        "trials": trials,
    }


def _known(value: object) -> object:
    """Return *value*; ``None`` for a number that JSON does not have."""
    return None if isinstance(value, float) and not isfinite(value) else value
