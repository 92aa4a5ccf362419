# SPDX-License-Identifier: Apache-2.0
"""Requests that come to a pipeline by the protocol of a plugin.

A worker of the first stage reads the body, each input goes through the pipeline by itself, and a
worker of the last stage writes the answer. What the envelope keeps between travels with them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import structs

from servekit.errors import ResultNotEncodable
from servekit.frontend.pipelines import values
from servekit.frontend.pipelines.elements import ElementsRun
from servekit.frontend.pipelines.pipeline import REQUEST, Node, Pipeline
from servekit.frontend.pipelines.run import PipelineRun
from servekit.frontend.pipelines.submission import Submission
from servekit.ipc.batches import ELEMENT, EnvelopePart, Item, ProtocolCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.extension.http import HttpResponse
    from servekit.ipc.batches import SentItem

__all__ = ["EnvelopedRun"]


class EnvelopedRun(ElementsRun):
    """One request of a protocol. The first input that fails is the answer."""

    __slots__ = ("_state",)

    accept = ELEMENT.encode()

    def _reader(self) -> tuple[Node, SentItem]:
        sent = self._submission.item
        item = structs.replace(sent, protocol=self._call(EnvelopePart.READ))
        first = self._pipeline.nodes[0]
        return Node("", first.batcher, [REQUEST], calls=first.calls), item

    def _call(self, part: EnvelopePart) -> ProtocolCall:
        call = self._submission.item.protocol
        assert call is not None
        return structs.replace(call, part=part)

    def _start(self, parts: list[bytes]) -> None:
        self._state, *inputs = parts
        super()._start(inputs)

    def _responder(self, at: int) -> OutputResponder:
        return OutputResponder(partial(self._take, at), self._abort)

    def _abort(self, error: ServekitError) -> None:
        if not self._is_done:
            self.fail(error)
            for run in self._runs:
                run.cancel()

    def _finish(self) -> None:
        """Start the step that writes the answer."""
        sent, last = self._submission.item, self._pipeline.nodes[-1]
        batcher = last.batcher
        body = batcher.bodies.lay(values.as_values([self._state, *self._outputs]))
        item: SentItem = Item(body, sent.content_type, sent.accept, sent.request_id, sent.deadline)
        item.protocol, item.identity = self._call(EnvelopePart.WRITE), sent.identity
        whole = self._submission
        submission = Submission(item, {}, whole.arrived, whole.until, trace=whole.trace)
        node = Node("", batcher, [REQUEST], calls=last.calls)
        writer = Pipeline([node], self._pipeline.loop)
        run = PipelineRun(writer, submission, self._client)
        self._runs = [run]
        run.begin()


class OutputResponder:
    """Takes the output of one input."""

    exchange: Final = None  #: an output is a part of an answer

    def __init__(
        self, take: Callable[[bytes], None], fail: Callable[[ServekitError], None]
    ) -> None:
        """Call *take* with the output, or *fail* with why there is none."""
        self._take, self.fail = take, fail

    def respond(self, response: HttpResponse) -> None:
        """Take the output of the last node."""
        output, media_type = bytes(response.body), response.media_type
        response.discard()
        if media_type == ELEMENT:
            self._take(output)
        else:  # the service chose another content type
            self.fail(ResultNotEncodable())

    def end_stream(self, now: float) -> None:
        """Never called: nothing streams without an exchange."""
