# SPDX-License-Identifier: Apache-2.0
"""What the framing tests send, and what they read back."""

import json

from .conftest import receive

GET = b"GET /ping/live HTTP/1.1\r\nHost: test\r\n\r\n"
HEAD = b"POST /echo/predict HTTP/1.1\r\nHost: test\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b"Content-Length: 2\r\n\r\nhi"


def status_of(front_end, sent: bytes) -> int:
    """Return the status of the one answer to *sent*, and see that the connection goes on."""
    with front_end.connect() as sock:
        sock.sendall(sent)
        status = receive(sock)[0]
        sock.sendall(HEAD + BODY)
        assert receive(sock)[::2] == (200, b"hi")
    return status


def refusal_of(front_end, sent: bytes) -> int:
    """Return the status of the one answer to *sent*, a problem, and see the connection close."""
    with front_end.connect() as sock:
        sock.sendall(sent)
        status, headers, body = receive(sock)
        assert headers["connection"] == "close"
        assert json.loads(body)["status"] == status
        assert sock.recv(1) == b"", "a second answer"
    return status
