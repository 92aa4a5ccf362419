# SPDX-License-Identifier: Apache-2.0
"""Decides which requests may read the pages, and which may change something.

On a loopback listener everybody on the machine may read. What shows inputs of clients (requests,
crashes, logs) they may read only if they may predict as well: no token and no plugin restricts
predictions. Elsewhere, to change something, and for bodies that the server keeps, the token for
management is needed: in ``Authorization``, or in the session that the login form begins.
"""

import secrets
from contextlib import suppress
from hashlib import shake_256
from hmac import compare_digest
from hmac import digest as mac_of
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from flask import Request
from werkzeug.wrappers import Response as BaseResponse

from servekit.errors import Forbidden, ServekitError
from servekit.extension import Server

__all__ = ["ConsoleAccess", "Sessions", "cookie_of"]

COOKIE: Final = "servekit-console"  #: and the port: cookies are shared by all ports of a host
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
#: a proxy that says so has clients elsewhere, even if it runs on this machine
OF_PROXIES: Final = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via")


class ConsoleAccess:
    """Decides about each request of the console. One for each front-end."""

    def __init__(self, server: Server) -> None:
        """Ask *server* about tokens."""
        self._server = server
        self._is_loopback = listens_on_loopback(server)
        self._sessions = Sessions(server.run_directory / "console.key")

    def may_read(self, request: Request) -> bool:
        """Whether *request* may see pages."""
        return self.is_local(request) or self.may_change(request)

    def may_see_inputs(self, request: Request) -> bool:
        """Whether *request* may see what clients send, except bodies that the server keeps."""
        is_open = self._server.predictions_are_open and self.is_local(request)
        return is_open or self.may_change(request)

    def may_change(self, request: Request) -> bool:
        """Whether *request* has the token for management; bodies and secrets need it, too."""
        return self._judge(request) is None

    def check_change(self, request: Request) -> None:
        """Refuse a *request* that changes something.

        :raises Unauthorized: it has no token.
        :raises Forbidden: it comes from a page of another site, or the token is another one.
        """
        if not is_same_origin(request):
            raise Forbidden("the request comes from a page of another site")
        refusal = self._judge(request)
        if refusal is not None:
            raise refusal

    def _judge(self, request: Request) -> ServekitError | None:
        given = request.headers.get("Authorization") or self._sessions.authorization(request)
        return self._server.judge_manager(given.encode("latin-1") if given else None)

    def is_local(self, request: Request) -> bool:
        """Whether *request* is one of this machine, to a listener that only this machine reaches.

        The name in ``Host`` is compared, so that a page of another site cannot have its own name
        resolve to this address (DNS rebinding).
        """
        if not self._is_loopback or any(name in request.headers for name in OF_PROXIES):
            return False
        host, _ = _split(request.host)
        return host.lower() in LOCAL_NAMES and is_loopback(request.remote_addr or "")

    def log_in(self, request: Request, response: BaseResponse, token: str) -> ServekitError | None:
        """Begin a session on *response* if *token* is one for management, or return why not."""
        if not is_same_origin(request):
            return Forbidden("the request comes from a page of another site")
        refusal = self._server.judge_manager(f"Bearer {token}".encode("latin-1", "replace"))
        if refusal is None:
            response.set_cookie(
                cookie_of(request),
                self._sessions.seal(token),
                path="/console/",
                secure=request.is_secure,
                httponly=True,
                samesite="Strict",
            )
        return refusal


def _make(path: Path, content: bytes) -> None:
    """Make a file that is whole from the beginning, unless another front-end has made it."""
    own = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        own.touch(0o600)
        own.write_bytes(content)
        with suppress(FileExistsError):
            path.hardlink_to(own)
    finally:
        own.unlink(missing_ok=True)


class Sessions:
    """Cookies that hold a token, encrypted with a key that the front-ends of a server share.

    The token is checked with every request, so a token that is withdrawn ends its sessions.
    """

    def __init__(self, path: Path) -> None:
        """Use the key in the file *path*, which is made if it does not exist.

        If the disk is full, this front-end has another key, and the others ask for the token again.
        """
        key = secrets.token_bytes(32)
        try:
            if not path.exists():
                _make(path, key)
            self._key = path.read_bytes()
        except OSError:
            self._key = key

    def seal(self, token: str) -> str:
        """Return the value of a cookie for *token*."""
        nonce = secrets.token_bytes(16)
        hidden = nonce + self._mask(nonce, token.encode())
        return (self._mac(hidden) + hidden).hex()

    def authorization(self, request: Request) -> str:
        """Return what ``Authorization`` would be for the session of *request*, or ""."""
        try:
            sealed = bytes.fromhex(request.cookies.get(cookie_of(request), ""))
            mac, hidden = sealed[:32], sealed[32:]
            if not compare_digest(mac, self._mac(hidden)):
                return ""
            return f"Bearer {self._mask(hidden[:16], hidden[16:]).decode()}"
        except ValueError:
            return ""

    def _mac(self, hidden: bytes) -> bytes:
        return mac_of(self._key, hidden, "sha256")

    def _mask(self, nonce: bytes, content: bytes) -> bytes:
        stream = shake_256(self._key + nonce).digest(len(content))
        return bytes(a ^ b for a, b in zip(content, stream, strict=True))


def is_same_origin(request: Request) -> bool:
    """Whether *request* comes from a page of this server, or from no page at all.

    Browsers add ``Origin`` to requests that change something. A program adds no such field, and
    has no cookie that somebody else's page could use.
    """
    origin = request.headers.get("Origin")
    if origin is not None:
        return urlsplit(origin).netloc == request.host
    return request.headers.get("Sec-Fetch-Site", "same-origin") in ("same-origin", "none")


def listens_on_loopback(server: Server) -> bool:
    """Whether all listeners for clients are loopback addresses."""
    settings = server.settings
    hosts = [each.rpartition(":")[0] for each in settings.bind] or [settings.host]
    return all(is_loopback(host.strip("[]")) for host in hosts)


def is_loopback(host: str) -> bool:
    """Whether *host* is an address of this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def cookie_of(request: Request) -> str:
    """Return the name of the cookie: servers at other ports of the host have their own."""
    _, port = _split(request.host)
    return f"{COOKIE}-{port}" if port else COOKIE


def _split(host: str) -> tuple[str, str]:
    """Return the name or address of ``Host``, and the port, which may be ""."""
    if ":" not in host or host.endswith("]"):
        return host, ""
    name, _, port = host.rpartition(":")
    return name, port
