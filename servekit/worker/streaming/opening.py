# SPDX-License-Identifier: Apache-2.0
"""The beginning of a stream: how it will be written, and the items that the service gets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from servekit.errors import InputError
from servekit.ipc.batches import VALUE, Item
from servekit.worker.prediction.response_writer import blame_client, written
from servekit.worker.streaming.stream import Formats, Stream

if TYPE_CHECKING:
    from servekit.worker.envelopes.table import EnvelopeTable
    from servekit.worker.prediction.current_batch import OpenItem

__all__ = ["StreamOpener"]


class StreamOpener:
    """Opens the streams of one worker."""

    def __init__(self, envelopes: EnvelopeTable, max_answer_bytes: int) -> None:
        """Read the requests of protocols with *envelopes*."""
        self._envelopes = envelopes
        self.write = partial(written, limit=max_answer_bytes)
        self._formats = Formats()

    def items_of(self, stream: Stream) -> list[OpenItem]:
        """Decide how *stream* is written; return the items that the service gets.

        There is one, unless the request comes by a protocol.

        :raises RequestError: the request is refused.
        """
        if stream.item.protocol is not None:
            return self._open_enveloped(stream)
        sent = stream.item
        stream.format = self._formats.of(sent)
        if stream.format is None:
            plans = stream.predictor.plans
            if sent.style is not None:
                plans = plans.of(sent.style)
            stream.plan, deadline = plans[sent.accept], sent.deadline
        else:
            deadline = stream.message.until
        accept = VALUE.encode()
        item: OpenItem = Item(sent.body, sent.content_type, accept, sent.request_id, deadline)
        item.headers, item.identity = sent.headers, sent.identity
        return [item]

    def _open_enveloped(self, stream: Stream) -> list[OpenItem]:
        """Do the same for a request that comes by a protocol.

        :raises InputError: the client wants a stream, and there is not exactly one input, as the
            envelope needs.
        """
        stream.enveloped = enveloped = self._envelopes.open(stream.item)
        items = enveloped.items()
        if enveloped.request.is_stream:
            if len(items) != 1 and not enveloped.streams_several_inputs:
                raise InputError(f"a stream has one input, got {len(items)}")
            for item in (stream.item, *items):
                item.deadline = stream.message.until
        return items

    def blamed(self, error: BaseException, stream: Stream) -> BaseException:
        """Return *error*, raised while an output was written, or the client's mistake behind it."""
        if stream.enveloped is not None:
            return error
        plan = stream.predictor.plans.piece if stream.format else stream.plan
        has_preprocess = stream.predictor.has_preprocess
        return blame_client(error, plan, lambda: stream.request, has_preprocess=has_preprocess)
