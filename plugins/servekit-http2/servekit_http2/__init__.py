# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 (RFC 9113): many requests at a time on one connection.

``connection.py`` owns the socket. ``frames.py`` splits what it reads into frames, and
``streams.py`` passes them through the state machine of ``h2`` (``protocol.py``) to the exchange of
their stream (``exchange.py``), whose request is built in ``incoming.py`` and
``request_builder.py``. Its response waits in ``send_queue.py`` until ``scheduler.py`` finds room
for it. ``flood_guard.py`` ends connections that cost more than they ask for.

Imported when the first client speaks HTTP/2.
"""
