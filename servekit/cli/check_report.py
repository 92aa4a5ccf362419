# SPDX-License-Identifier: Apache-2.0
"""What ``servekit check`` prints."""

from collections.abc import Iterator
from typing import Any

import msgspec

from servekit.checkup import BatchRun, ExampleRun
from servekit.cli.checking import Report
from servekit.description.interface import Tensor
from servekit.description.words import fields, tensor_words
from servekit.messages import Interface
from servekit.settings.values import MIB

__all__ = ["as_json", "as_text"]

LABEL = 10  #: columns
UNKNOWN = "anything: no signature and no types say more"


def as_json(report: Report) -> dict[str, Any]:
    """Return everything as one JSON object; durations in seconds, sizes in bytes."""
    prepared, loaded = report.prepared, report.loaded
    return {
        "name": prepared.name,
        "stage": report.stage.name,
        "version": prepared.version,
        "directory": prepared.directory,
        "loaded": msgspec.to_builtins(msgspec.structs.asdict(loaded)) if loaded else None,
        "examples": [msgspec.structs.asdict(run) for run in report.examples],
        "batches": [msgspec.structs.asdict(run) for run in report.batches],
        "peak_bytes": report.peak_bytes,
        "problems": report.problems,
    }


def as_text(report: Report) -> str:
    """Return a page for people."""
    prepared = report.prepared
    rows = "".join(f"  {label:<{LABEL}}{text}\n" for label, text in _facts(report))
    return (
        f"{report.name} {prepared.version}\n{rows}"
        f"{_examples(report.examples)}{_batches(report.batches)}{_verdict(report)}"
    )


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    if (loaded := report.loaded) is None:
        return
    interface = loaded.interface
    yield "service", loaded.service
    yield from _side("input", interface, interface.input_schema)
    yield from _side("output", interface, interface.output_schema)
    yield "takes", ", ".join(interface.consumes)
    yield "gives", ", ".join(interface.produces)
    yield "load", f"{loaded.load_s:.2f} s"
    own = f"{_mib(loaded.proportional_bytes)} (PSS)"
    peak = f", {_mib(report.peak_bytes)} at the peak" if report.peak_bytes else ""
    yield "memory", f"{_mib(loaded.resident_bytes)} (RSS) after the load, {own}{peak}"


def _side(label: str, interface: Interface, schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    tensors = (interface.signature or {}).get(f"{label}s")
    if tensors:
        told = [(each["name"], tensor_words(Tensor(**each))) for each in tensors]
    else:
        told = fields(schema, interface.schema_definitions) if schema else [("", UNKNOWN)]
    yield from ((label, f"{name}  {words}".strip()) for name, words in told)


def _mib(count: int) -> str:
    return f"{count / MIB:,.1f} MiB"


def _examples(runs: list[ExampleRun]) -> str:
    if not runs:
        return "\nno examples\n"
    rows = [
        f"  {run.number:>4}  {run.duration_s * 1000:>9.2f} ms  {run.problem or 'ok'}\n"
        for run in runs
    ]
    return "\nexamples\n" + "".join(rows)


def _batches(runs: list[BatchRun]) -> str:
    if not runs:
        return "\nno batches: neither an example nor a signature says what an input is\n"
    return "\n  batch   ms/batch   ms/input   inputs/s\n" + "".join(map(_batch, runs))


def _batch(run: BatchRun) -> str:
    if run.problem:
        return f"  {run.size:>5}   {run.problem}\n"
    milliseconds = run.duration_s * 1000
    rate = run.size / max(run.duration_s, 1e-9)
    return (
        f"  {run.size:>5} {milliseconds:>10.3f} {milliseconds / run.size:>10.3f} {rate:>10,.0f}\n"
    )


def _verdict(report: Report) -> str:
    problems = report.problems
    if not problems:
        return f"\n{report.prepared.name} is fine"
    return "\n" + "\n".join(f"{report.prepared.name}: {problem}" for problem in problems)
