# SPDX-License-Identifier: Apache-2.0
"""Parts of responses that handlers send before they return. Runs in: worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit_torchserve.context import HandlerContext

__all__ = ["send_intermediate_predict_response"]


def send_intermediate_predict_response(
    ret: Sequence[Any],
    req_id_map: Mapping[int, str],
    message: str,
    code: int,
    ts_context: HandlerContext | None = None,
) -> None:
    """Send *ret*, an element for each request, as the next part of the responses.

    :param ts_context: the context that ``handle`` has been called with.
    :raises RuntimeError: the context is missing, or the model is not served as one that streams.
    """
    send = ts_context.send_part if ts_context is not None else None
    if send is None:
        raise RuntimeError("the response cannot be sent in parts: pass the context of the handler")
    send(ret)
