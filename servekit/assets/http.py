# SPDX-License-Identifier: Apache-2.0
"""``https://`` and ``http://``: continued where an earlier attempt stopped.

The content is compared with a SHA-256 of the manifest, so that plain http, a proxy or a
redirection cannot change it.
"""

from collections.abc import Iterator
from http import HTTPStatus
from urllib import request
from urllib.error import HTTPError, URLError

from servekit import __version__

__all__ = ["fetch"]

CHUNK_BYTES = 1 << 18
SILENCE_S = 30.0  #: longest silence of a server

#: the handlers of ``urlopen`` except files and ftp, to which a server could redirect us
HANDLERS = (
    request.ProxyHandler,
    request.HTTPHandler,
    request.HTTPSHandler,
    request.HTTPDefaultErrorHandler,
    request.HTTPRedirectHandler,
    request.HTTPErrorProcessor,
    request.UnknownHandler,
)


def fetch(url: str, start: int) -> Iterator[bytes]:
    """Yield the bytes of *url* from *start* on; skips them where the server cannot.

    :raises OSError: it cannot be reached, refuses, or stops before its end.
    """
    headers = {"User-Agent": f"servekit/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        answer = _opener().open(request.Request(url, headers=headers), timeout=SILENCE_S)  # noqa: S310 - no handler for other schemes
    except HTTPError as error:
        if start and error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # there is no more than what we have
        raise OSError(f"{error.code} {error.reason}") from None
    except URLError as error:
        raise OSError(str(error.reason)) from None
    with answer:
        skipped = 0 if answer.status == HTTPStatus.PARTIAL_CONTENT else start
        while chunk := answer.read(CHUNK_BYTES):
            rest = chunk[skipped:]
            skipped -= len(chunk) - len(rest)
            if rest:
                yield rest
        if answer.length:  # urllib takes the end of a connection for the end of the body
            raise OSError(f"the connection ended {answer.length} bytes too early")


def _opener() -> request.OpenerDirector:
    opener = request.OpenerDirector()
    for handler in HANDLERS:
        opener.add_handler(handler())
    return opener
