# SPDX-License-Identifier: Apache-2.0
"""A path whose requests go through a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from servekit.frontend.batching.task_route import style_for
from servekit.frontend.pipelines.enveloped import EnvelopedRun
from servekit.frontend.pipelines.run import PipelineRun
from servekit.frontend.pipelines.submission import ClientResponder, submit
from servekit.ipc.response_style import wants_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Middleware
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.frontend.pipelines.pipeline import Pipeline
    from servekit.ipc.batches import ProtocolCall
    from servekit.ipc.response_style import ResponseStyle
    from servekit.ipc.table import ModelRow

__all__ = ["PipelineRoute"]

FIELD_BYTES: Final = 1 << 20  #: bodies up to this size are searched for the field of a stream


class PipelineRoute:
    """Replaced with each routing table."""

    call: ProtocolCall | None = None  #: a request that comes here directly has no protocol
    is_provisional = False

    def __init__(
        self,
        row: ModelRow,
        pipeline: Pipeline,
        metrics: ModelMetrics,
        middleware: Middleware | None = None,
        style: ResponseStyle | None = None,
    ) -> None:
        """Send requests through *pipeline*, and count them in *metrics*.

        :param middleware: of this route alone.
        :param style: of its responses; protocols have their own.
        """
        self.row, self._pipeline, self.metrics = row, pipeline, metrics
        self.middleware, self._style = middleware, style
        self.version = row.version.encode()
        self.asked: Sequence[str] = pipeline.asked

    @property
    def bodies(self) -> BodyArena:
        """Where large request bodies are received."""
        return self._pipeline.bodies

    @property
    def is_changing(self) -> bool:
        """Whether replicas of an older version still answer."""
        return self._pipeline.is_changing

    @property
    def has_spare_room(self) -> bool:
        """Whether its queues are less than half full."""
        return all(node.batcher.queue.has_spare_room for node in self._pipeline.nodes)

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start the run of *request*, or respond at once.

        :param call: the protocol of a plugin that the request comes by, if it comes by one.
        """
        style = style_for(self._style, call)
        submission, refusal = submit(request, self._pipeline.predict_timeout_s, call, style)
        if submission.style is not None:
            submission.style = _asked(submission.style, submission.item.content_type, request)
        submission.trace = self._pipeline.trace_of(exchange, request, submission.arrived)
        responder = ClientResponder(exchange, self.metrics, submission)
        kind = PipelineRun if submission.item.protocol is None else EnvelopedRun
        exchange.prediction = run = kind(self._pipeline, submission, responder)
        run.begin(refusal)


def _asked(style: ResponseStyle, content_type: bytes, request: HttpRequest) -> ResponseStyle:
    """Return *style* with what the body of *request* says: the last worker does not get it."""
    if not style.stream.field or len(request.content) > FIELD_BYTES:
        return style
    wanted = wants_stream(style.stream.field, content_type, request.content)
    return structs.replace(style, wants_stream=wanted)
