# SPDX-License-Identifier: Apache-2.0
"""The requests that a plugin wants traces of."""

from msgspec import Struct

__all__ = ["TraceSampling"]


class TraceSampling(Struct, frozen=True, kw_only=True):
    """An answer to ``trace_sampler`` that says more than a share."""

    share: float  #: from 0 to 1, of the requests without a ``traceparent``
    #: traces that each front-end begins in a second at most, besides those that clients ask for
    per_second: float | None = None
    #: the flags of a ``traceparent`` decide for its request; ``False``: the share does
    follows_clients: bool = True
