# SPDX-License-Identifier: Apache-2.0
"""The inputs of a request of a protocol, as items that a predictor answers with objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit.extension.envelope import EncodedInput, ListInput
from servekit.ipc.batches import Item
from servekit.worker.envelopes.heads import header_of
from servekit.worker.prediction.objects import LISTS, OBJECT, DecodedInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.worker.prediction.current_batch import OpenItem

__all__ = ["input_item"]


def input_item(item: OpenItem, value: Any, takes_view: Callable[[bytes], bool]) -> OpenItem:
    """Return the item of *value*, one of the inputs that an envelope has found in *item*.

    :param takes_view: whether bodies of a content type may be views.
    :raises UnknownMediaType: the content type is one that only our own processes use.
    """
    body: Any
    sent: Any = item.body
    if isinstance(value, EncodedInput):
        header, body = header_of(value.content_type), value.body
        if type(body) is not bytes and not takes_view(header):
            body = bytes(body)
    elif isinstance(value, ListInput):
        header, body = LISTS, DecodedInput(value.values, sent)
    else:
        header, body = OBJECT, DecodedInput(value, sent)
    return Item(
        *(body, header, OBJECT, item.request_id, item.deadline),
        headers=item.headers,
        calls=item.calls,
        identity=item.identity,
    )
