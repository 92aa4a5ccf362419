# SPDX-License-Identifier: Apache-2.0
"""``servekit describe``: what a model takes and gives, without loading it."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from servekit.cli.model import known_model
from servekit.cli.model.known_model import KnownModel
from servekit.cli.parsing.exit_status import OK
from servekit.description.facts import path_facts
from servekit.description.interface import PathDescription
from servekit.description.openapi import openapi
from servekit.description.summaries import summarize_fields, summarize_tensor
from servekit.description.swagger import swagger
from servekit.extension.commands import Run

__all__ = ["describe"]

EPILOG = """\
[signature], [routes] and [[examples]] are read from the manifest. The annotations of predict and
the methods marked with @endpoint are in the code, which is imported only with --import. What a
service finds out when it loads its model, such as an ONNX graph, is only known to a running
server; see its /openapi.json.

examples:
  servekit describe digits.mar
  servekit describe ./shipping --import
  servekit describe digits.mar --openapi > openapi.json
  servekit describe ./answers --path /v1/embeddings
"""
MANIFEST_SAYS_NOTHING = "not declared in the manifest; --import reads the types of the code"
NEITHER_SAYS = "declared neither in the manifest nor by the types of the code"


def describe(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    known_model.add_arguments(parser)
    known_model.add_path(parser, "describe only this path")
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--openapi", action="store_true", help="print OpenAPI 3.1, as a server does"
    )
    formats.add_argument("--swagger", action="store_true", help="print Swagger 2.0")
    formats.add_argument("--json", action="store_true", help="print a JSON object")
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print the description.

    :raises StartupError: the model is refused.
    """
    known = known_model.read(parsed)
    shown = [known.at(parsed.path)] if parsed.path else known.paths
    if parsed.openapi:
        print(as_json(openapi(shown)))
    elif parsed.swagger:
        print(as_json(swagger(shown)))
    elif parsed.json:
        print(as_json(facts(known, shown)))
    else:
        print("\n".join(f"{label:<12}{text}".rstrip() for label, text in lines(known, shown)))
    return OK


def as_json(value: Any) -> str:
    """Return *value* as JSON for people and programs; NaN in an author's schema is null."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def facts(known: KnownModel, shown: Sequence[PathDescription]) -> dict[str, Any]:
    """Return what is known as one object."""
    manifest = known.manifest
    stages = {name: stage.service for name, stage in manifest.every_stage.items()}
    return {
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "services": stages,
        "max_concurrency": dict(known.bounds),
        "playground": manifest.playground.to_mapping() if manifest.playground else {},
        "paths": [path_facts(each) for each in shown],
    }


def lines(known: KnownModel, shown: Sequence[PathDescription]) -> Iterator[tuple[str, str]]:
    """Yield label and content of each line of the table."""
    manifest = known.manifest
    yield "model", f"{manifest.name} {manifest.version}"
    if manifest.description:
        yield "about", " ".join(manifest.description.split())
    for name, stage in manifest.every_stage.items():
        where = f" (in the workers of {stage.host})" if stage.host else ""
        bound = known.bounds.get(name)
        told = f"{stage.service}{where}" + (f", async, at most {bound} at a time" if bound else "")
        yield "service", f"{name}: {told}" if manifest.stages else told
    for described in shown:
        yield from _path_lines(described, manifest.description)
        if not described.signature.inputs and not described.input_schema:
            yield "input", NEITHER_SAYS if known.is_imported else MANIFEST_SAYS_NOTHING


def _path_lines(described: PathDescription, about: str) -> Iterator[tuple[str, str]]:
    yield "predict", f"{'GET, ' if described.get else ''}POST {described.path}"
    if described.description not in ("", about):
        yield "about", " ".join(described.description.split())
    if described.instances:
        yield "instances", 'any number of inputs, each answered by itself: {"instances": [...]}'
    if described.style.is_bare:
        yield "answers", 'with the output itself: no {"prediction": ...} around it'
    if described.is_loaded:
        yield "takes", ", ".join(described.consumes)
        yield "gives", ", ".join(described.produces)
    if described.request_headers:
        yield "headers", ", ".join(described.request_headers)
    if described.request_query:
        yield "query", ", ".join(described.request_query)
    yield from _sides(described)
    for example in described.examples:
        given = example.input_file or msgspec.json.encode(example.input).decode()
        told = "" if example.output is None else msgspec.json.encode(example.output).decode()
        yield "example", f"{_cut(given)} -> {_cut(told)}".removesuffix(" -> ")


def _sides(described: PathDescription) -> Iterator[tuple[str, str]]:
    tensors = described.signature
    if tensors.inputs:
        for label, side in ("input", tensors.inputs), ("output", tensors.outputs):
            yield from ((label, f"{each.name}  {summarize_tensor(each)}") for each in side)
    elif described.is_loaded:
        sides = ("input", described.input_schema), ("output", described.output_schema)
        for label, schema in sides:
            for name, words in summarize_fields(schema, described.definitions):
                yield label, f"{name}  {words}".strip()


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."
