# SPDX-License-Identifier: Apache-2.0
"""What a service looks at besides the body of a request."""

from collections.abc import Iterator
from typing import Any, Final

from servekit.description.interface import Described

__all__ = ["asked_parameters"]

SEEN: Final = "The service looks at it."
#: described with every operation, or by its media types and its security
SAID: Final = frozenset(
    ["accept", "authorization", "content-type", "x-request-id", "x-request-timeout-ms"]
)


def asked_parameters(model: Described) -> Iterator[dict[str, Any]]:
    """Yield the parameters that the services of *model* ask for; their type is still to be said."""
    for name in model.request_headers:
        if name not in SAID:
            yield {"name": name, "in": "header", "description": SEEN}
    for name in model.request_query:
        yield {"name": name, "in": "query", "description": SEEN}
