# SPDX-License-Identifier: Apache-2.0
"""A server of HTTP/1.1 that answers by a script: rightly, late, wrongly, or not at all."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from typing import Self

#: gets the number of a request, returns the pieces of the answer; may raise to close
Script = Callable[[int], Iterable[bytes]]


def answer(body: bytes = b'{"prediction":1}', status: str = "200 OK", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class ScriptedServer:
    """Answers each request by *script*, in a thread for each connection."""

    def __init__(
        self,
        script: Script = lambda number: [answer()],
        *,
        path: str = "",
        tls: ssl.SSLContext | None = None,
        reads_bodies: bool = True,
    ) -> None:
        self.listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
        self.listener.bind(path or ("127.0.0.1", 0))
        self.listener.listen(256)
        self.port = 0 if path else self.listener.getsockname()[1]
        self.requests: list[bytes] = []
        self._script, self._tls, self._reads_bodies = script, tls, reads_bodies
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)  # closing alone does not wake accept
        self.listener.close()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            try:
                if self._tls:
                    sock = self._tls.wrap_socket(sock, server_side=True)
            except OSError:  # the client refuses the certificate
                continue
            self._sockets.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            with sock.makefile("rb") as reader:
                while request := _read(reader, with_body=self._reads_bodies):
                    with self._lock:
                        number = len(self.requests)
                        self.requests.append(request)
                    for piece in self._script(number):
                        sock.sendall(piece)
                    if b"Connection: close" in piece:
                        break
        except (OSError, RuntimeError, ValueError):
            pass
        finally:
            sock.close()


def _read(reader, *, with_body: bool) -> bytes:
    """Read a request: its head, and its body if asked to."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline()
        if not line:
            return b""
        head += line
    lengths = [each for each in head.lower().split(b"\r\n") if each.startswith(b"content-length:")]
    return head + reader.read(int(lengths[0].split(b":")[1]) if lengths and with_body else 0)


def late(seconds: float) -> Script:
    """Answer after *seconds*."""

    def script(number: int) -> Iterable[bytes]:
        time.sleep(seconds)
        yield answer()

    return script
