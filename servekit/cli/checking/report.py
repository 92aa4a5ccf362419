# SPDX-License-Identifier: Apache-2.0
"""The output of ``servekit check``."""

from collections.abc import Iterator, Sequence
from itertools import starmap, zip_longest
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

import msgspec

from servekit.checkup.messages import BatchRun, ExampleRun
from servekit.cli.checking.checking import Report
from servekit.description.interface import TensorType
from servekit.description.summaries import summarize_fields, summarize_tensor
from servekit.ipc.table import Interface
from servekit.settings.values import MIB
from servekit.types.arrays import with_batch_axis

if TYPE_CHECKING:
    from servekit.cli.checking.pipeline import PipelineReport

__all__ = ["as_json", "as_text", "pipeline_as_json"]

LABEL = 10  #: columns
UNKNOWN = "any value: no signature or annotations"


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
        "endpoints": [msgspec.structs.asdict(each) for each in report.tried if each.target],
        "unchecked": report.unchecked,
        "peak_bytes": report.peak_bytes,
        "problems": report.problems,
    }


def as_text(name: str, reports: Sequence[Report], pipeline: "PipelineReport | None") -> str:
    """Return a page for people about the model *name*, with what is wrong at its end."""
    pages = [_stage_as_text(report) for report in reports]
    problems = [f"{report.name}: {each}" for report in reports for each in report.problems]
    if pipeline:
        pages.append(_pipeline_as_text(name, pipeline))
        problems += [f"{name}: {each}" for each in pipeline.problems]
    unchecked = [
        fill(f"not checked: {each.name}: {text}", 80, subsequent_indent="  ")
        for each in reports
        for text in each.unchecked
    ]
    verdict = f"{name}: no problem in what was checked" if unchecked else f"{name} is fine"
    return "\n".join([*pages, *unchecked, *(problems or [verdict])])


def _stage_as_text(report: Report) -> str:
    rows = "".join(starmap(_row, _facts(report)))
    return (
        f"{report.name} {report.prepared.version}\n{rows}"
        f"{_examples(report.examples)}{_batches(report.batches)}"
    )


def _row(label: str, text: str) -> str:
    """Return a row of the table: lines of 80 columns, broken between words."""
    lines = wrap(text, 80 - 2 - LABEL, break_long_words=False, break_on_hyphens=False)
    return "".join(
        f"  {start:<{LABEL}}{line}\n"
        for start, line in zip_longest([label], lines or [""], fillvalue="")
    )


def pipeline_as_json(report: "PipelineReport") -> dict[str, Any]:
    """Return what was found of the routes through the stages; durations in seconds."""
    return {
        "paths": report.paths,
        "examples": [msgspec.structs.asdict(run) for run in report.examples],
        "note": report.note,
        "problems": report.problems,
    }


def _pipeline_as_text(name: str, report: "PipelineReport") -> str:
    """Return a page about the routes through the stages of the model *name*."""
    width = max(map(len, report.paths), default=0)
    rows = "".join(
        f"  {path:<{width}}  {' > '.join(labels)}\n" for path, labels in report.paths.items()
    )
    shown = f"\n{report.note}\n" if report.note else _examples(report.examples)
    return f"{name}, all stages\n{rows}{shown}"


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
    signature = interface.signature or {}
    if interface.rows:
        signature = with_batch_axis(signature)
    tensors = signature.get(f"{label}s")
    if tensors:
        told = [(each["name"], summarize_tensor(TensorType(**each))) for each in tensors]
    else:
        told = summarize_fields(schema, interface.schema_definitions) if schema else [("", UNKNOWN)]
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
        return "\nno batches\n"
    return "\n  batch   ms/batch   ms/input   inputs/s\n" + "".join(map(_batch, runs))


def _batch(run: BatchRun) -> str:
    if run.problem:
        return f"  {run.size:>5}   {run.problem}\n"
    milliseconds = run.duration_s * 1000
    rate = run.size / max(run.duration_s, 1e-9)
    return (
        f"  {run.size:>5} {milliseconds:>10.3f} {milliseconds / run.size:>10.3f} {rate:>10,.0f}\n"
    )
