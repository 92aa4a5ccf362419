# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 (RFC 9113): many requests at a time on one connection.

``connection.py`` owns the socket; ``frames.py`` splits what it reads into frames, ``streams.py``
gives them to the state machine of ``h2`` (``protocol.py``) and each stream what comes of it; a
stream is an ``Exchange`` (``exchange.py``). ``request_body.py`` and ``request_builder.py`` make
its request; ``send_queue.py`` and ``hpack_encoder.py`` hold its response until ``scheduler.py``
finds room for it.

Imported when the first client speaks HTTP/2.
"""
