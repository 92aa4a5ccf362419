# SPDX-License-Identifier: Apache-2.0
"""The parts that another version of HTTP is built from (``register_transports``).

Everything else that it needs is in ``servekit.extension`` and ``servekit.errors``. A transport is
a class that is called with a non-blocking socket whose client has sent the transport's preface,
the client's address, and the ``Host``. Its connections are ``Connected``: callbacks of the event
loop of a front-end, which never block.

- For each request, it makes a subclass of ``BaseExchange``, adds it to ``host.connections`` if it
  has separate timeouts, and calls ``host.handle(exchange, request)``. ``host.guard``, if it is
  set, makes the function that judges the requests of an exchange.
- ``RequestBuilder`` builds requests of their parts and applies the rules and limits of HTTP.
  ``end_unread`` and ``start_upload`` decide whether a body is wanted, and whether it goes to the
  shared memory of its model; ``count_arrived`` counts a request that is incomplete when the socket
  has been read; ``BodyClock`` says when its client is too slow.
- ``begin_stream`` of an exchange returns ``watched(head, writer)``: filters may watch the body.
- ``SocketReader`` and ``SocketWriter`` read and write the socket, in the clear or TLS.
- ``host.slices`` limits how long the loop works for clients that send a lot at once, and
  ``host.pressure`` counts the memory that is held for them.
"""

from servekit.extension.base_exchange import BaseExchange, watched
from servekit.extension.exchange import BodyWriter, OutputStream
from servekit.extension.http import NO_LENGTH
from servekit.frontend.exchange.host import Host
from servekit.frontend.exchange.protocols import Guard, Timed
from servekit.frontend.http.closed import do_nothing
from servekit.frontend.http.fields import (
    CONNECTION_FIELDS,
    METHODS,
    NOT_IN_TRAILERS,
    check_size,
)
from servekit.frontend.http.placement import (
    count_arrived,
    end_unread,
    lateness_of,
    start_upload,
)
from servekit.frontend.http.request_body import BodyClock
from servekit.frontend.http.request_builder import MAX_HEADERS, RequestBuilder
from servekit.frontend.http.socket_reader import SocketReader
from servekit.frontend.http.socket_writer import MAX_HELD_BYTES, SocketWriter
from servekit.frontend.http.tls import TlsSocket
from servekit.frontend.http.upload import Upload
from servekit.frontend.memory.arriving import ArrivingRequest
from servekit.frontend.memory.pressure import Pressure
from servekit.settings import Settings

__all__ = [
    "CONNECTION_FIELDS",
    "MAX_HEADERS",
    "MAX_HELD_BYTES",
    "METHODS",
    "NOT_IN_TRAILERS",
    "NO_LENGTH",
    "ArrivingRequest",
    "BaseExchange",
    "BodyClock",
    "BodyWriter",
    "Guard",
    "Host",
    "OutputStream",
    "Pressure",
    "RequestBuilder",
    "Settings",
    "SocketReader",
    "SocketWriter",
    "Timed",
    "TlsSocket",
    "Upload",
    "check_size",
    "count_arrived",
    "do_nothing",
    "end_unread",
    "lateness_of",
    "start_upload",
    "watched",
]
