# SPDX-License-Identifier: Apache-2.0
"""HTTP/2: many requests at a time on one connection (RFC 9113), answered as those of HTTP/1.1 are.

``connection.py`` owns the socket; ``frames.py`` parts what it reads into frames, ``protocol.py``
is the state machine of ``h2``. Each stream is an ``Exchange`` (``exchange.py``), which stands
where a ``Connection`` stands for the rest of the front-end: ``requests.py`` makes its request,
``outgoing.py`` holds its answer until the client has room for it.

Loaded when the first client says that it speaks HTTP/2.
"""
