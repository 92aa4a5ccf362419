# SPDX-License-Identifier: Apache-2.0
"""Streams that a worker may not begin."""

from types import SimpleNamespace

import pytest

from servekit.frontend.batching.stream import StreamedResponse
from servekit.frontend.batching.task_route import make_task
from servekit.ipc.batches import Item, Part
from servekit.ipc.channel import ChannelClosed

OWNER = SimpleNamespace(
    metrics=SimpleNamespace(count_stream=lambda _: None, count_outputs=lambda _: None)
)
OPEN = SimpleNamespace(is_closed=False, protocol=None)


@pytest.mark.parametrize(
    ("exchange", "media_type"),
    [
        pytest.param(None, "text/event-stream", id="of a step whose output is for the next one"),
        pytest.param(OPEN, "text/html", id="in another format"),
    ],
)
def test_a_worker_that_streams_where_it_may_not_is_in_doubt(exchange, media_type):
    task = make_task(OWNER, exchange, Item(b"", b"", b"", "r1", 9.0), 0.0)
    response = StreamedResponse(task, 0.0, is_stream=True)

    with pytest.raises(ChannelClosed, match="malformed answer from worker"):
        response.write(Part(1, media_type, b"1", 1), 1.0)
