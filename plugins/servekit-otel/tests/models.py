# SPDX-License-Identifier: Apache-2.0
"""Models that are traced."""

from pathlib import Path

PIPELINE = """
name = "words"
version = "1.0"
pipeline = ["split", "count", "rank"]

[stages.split]
service = "service:Split"

[stages.count]
service = "service:Count"
batching = BATCHING

[stages.rank]
service = "service:Rank"
colocated = "count"
"""

SERVICES = """
import urllib.request

from opentelemetry import propagate, trace

from servekit import Service, span

TRACER = trace.get_tracer("service")


class Split(Service):
    def predict(self, batch):
        with span("tokenize", texts=len(batch)):
            return [text.split() for text in batch]


class Count(Service):
    def predict(self, batch):
        kind = trace.SpanKind.CLIENT
        with span("outer"), TRACER.start_as_current_span("count", kind=kind) as own:
            own.set_attribute("texts", len(batch))
            headers = {}
            propagate.inject(headers)
            return [{"words": len(words), "sent": headers.get("traceparent")} for words in batch]


class Rank(Service):
    def predict(self, batch):
        with span("rank"):
            return batch
"""

ASYNC = """
import asyncio

from opentelemetry import trace

from servekit import Service, span


class Waits(Service):
    async def predict(self, value):
        with span("wait", value=value):
            with trace.get_tracer("service").start_as_current_span("inner"):
                await asyncio.sleep(0.001)
        return value
"""

STREAM = """
from servekit import Service, span


class Counts(Service):
    def stream(self, value):
        for number in range(value):
            with span("one"):
                pass
            yield number
"""


def write_pipeline(directory: Path, batching: str = "{}") -> Path:
    """Return a model of three stages, two of which share a worker with this *batching*."""
    return _write(directory / "words", PIPELINE.replace("BATCHING", batching), SERVICES)


def write_model(directory: Path, name: str, code: str) -> Path:
    """Return a model whose service is the only class in *code*."""
    kind = code.partition("class ")[2].partition("(")[0]
    text = f'name = "{name}"\nversion = "1.0"\nservice = "service:{kind}"\n'
    return _write(directory / name, text, code)


def _write(directory: Path, manifest: str, code: str) -> Path:
    directory.mkdir()
    (directory / "model.toml").write_text(manifest)
    (directory / "service.py").write_text(code)
    return directory
