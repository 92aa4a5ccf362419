# SPDX-License-Identifier: Apache-2.0
"""HTTP/2: many requests at a time on one connection (RFC 9113), answered as those of HTTP/1.1 are.

``connection.py`` owns the socket; ``frames.py`` parts what it reads into frames, ``streams.py``
gives them to the state machine of ``h2`` (``protocol.py``) and each stream what comes of it; that
is an ``Exchange`` (``exchange.py``), which stands where a ``Connection`` stands for the rest of the
front-end. ``incoming.py`` and ``requests.py`` make its request, ``outgoing.py`` and ``answers.py``
hold its answer until ``turns.py`` finds room for it.

Loaded when the first client says that it speaks HTTP/2.
"""
