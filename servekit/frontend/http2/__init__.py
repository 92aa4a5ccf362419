# SPDX-License-Identifier: Apache-2.0
"""HTTP/2: many requests at a time on one connection (RFC 9113), answered as those of HTTP/1.1 are.

``connection.py`` owns the socket; ``frames.py`` parts what it reads into frames, ``streams.py``
gives them to the state machine of ``h2`` (``protocol.py``) and each stream what comes of it; that
is an ``Exchange`` (``exchange.py``), which stands where a ``Connection`` stands for the rest of the
front-end. ``incoming.py`` and ``requests.py`` make its request, ``outgoing.py`` and ``answers.py``
hold its answer until ``turns.py`` finds room for it.

Loaded when the first client says that it speaks HTTP/2.
"""

import gc
from importlib import import_module

__all__ = ["is_loaded", "load"]

loaded: list[object] = []


def is_loaded() -> bool:
    """Whether all of it can be imported at once."""
    return bool(loaded)


def load() -> None:
    """Import it, which takes a while."""
    module = import_module("servekit.frontend.http2.connection")
    gc.freeze()  # it stays: the collector need not look at it while everybody waits
    loaded.append(module)
