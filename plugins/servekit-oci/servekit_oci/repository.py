# SPDX-License-Identifier: Apache-2.0
"""Asks a registry by the distribution API, with the token that it wants."""

import base64
import json
import os
import re
from email.message import Message
from http.client import HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from servekit.errors import StartupError
from servekit_oci.reference import Reference

__all__ = ["OciRepository"]

TIMEOUT_S = 30.0  #: without a byte
MOST_BYTES = 4 << 20  #: of a token or a manifest
PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class OciRepository:
    """One repository, and what authorizes us to read it."""

    def __init__(self, reference: Reference) -> None:
        """Connect to nothing yet."""
        self._reference = reference
        self._authorization = ""

    def open(self, path: str, accept: str = "*/*") -> HTTPResponse:
        """Return the response for *path* in the repository.

        :raises StartupError: the registry refuses us, or there is no such thing.
        :raises OSError: it does not answer.
        """
        url = f"{self._reference.base}/{path}"
        try:
            return self._get(url, accept)
        except HTTPError as error:
            if error.code != 401 or self._authorization:
                raise StartupError(f"{self._reference.registry} answers {error.code}") from error
            challenge = error.headers
            error.close()
        self._authorization = self._answer(challenge)
        try:
            return self._get(url, accept)
        except HTTPError as error:
            raise StartupError(f"{self._reference.registry} answers {error.code}") from error

    def read(self, path: str, accept: str) -> bytes:
        """Return the whole content of a small response."""
        with self.open(path, accept) as response:
            return read_small(response)

    def _get(self, url: str, accept: str) -> HTTPResponse:
        request = Request(url, headers={"Accept": accept})  # noqa: S310 - made from a Reference
        if self._authorization:  # not for the server that the registry redirects to
            request.add_unredirected_header("Authorization", self._authorization)
        return urlopen(request, timeout=TIMEOUT_S)  # type: ignore[no-any-return]  # noqa: S310

    def _answer(self, headers: Message) -> str:
        """Return the ``Authorization`` that the ``WWW-Authenticate`` of *headers* asks for.

        :raises StartupError: we cannot give it.
        """
        scheme, _, rest = headers.get("WWW-Authenticate", "").partition(" ")
        basic = credentials(self._reference.registry)
        if scheme.lower() == "basic" and basic:
            return basic
        parameters = dict(PARAMETER.findall(rest))
        realm = parameters.pop("realm", "")
        if scheme.lower() != "bearer" or not realm:
            raise StartupError(f"{self._reference.registry} wants credentials")
        if urlsplit(realm).scheme != "https" and not self._reference.is_plain:
            raise StartupError(f"{self._reference.registry}: its tokens are not given by HTTPS")
        return f"Bearer {self._token(realm, parameters, basic)}"

    def _token(self, realm: str, parameters: dict[str, str], basic: str) -> str:
        scope = f"repository:{self._reference.repository}:pull"
        query = {"service": parameters.get("service", ""), "scope": scope}
        request = Request(f"{realm}?{urlencode(query)}")  # noqa: S310 - checked by the caller
        if basic:
            request.add_unredirected_header("Authorization", basic)
        try:
            with urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
                answer = json.loads(read_small(response))
            return str(answer.get("token") or answer["access_token"])
        except HTTPError as error:
            refused = f"{self._reference.registry} gives no token: {error.code}"
            raise StartupError(refused) from error
        except (ValueError, KeyError, AttributeError) as error:
            raise StartupError(f"{self._reference.registry}: its token is malformed") from error


def read_small(response: HTTPResponse) -> bytes:
    """Return the content of *response*.

    :raises StartupError: it is too large.
    """
    content = response.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise StartupError(f"a response is larger than {MOST_BYTES} bytes")
    return content


def credentials(registry: str) -> str:
    """Return the ``Authorization`` that ``docker login`` has kept for *registry*, or "".

    :raises StartupError: its file cannot be read.
    """
    directory = os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"
    path = Path(directory) / "config.json"
    try:
        entry = json.loads(path.read_bytes()).get("auths", {}).get(registry, {})
        text = entry.get("auth", "")
        base64.b64decode(text, validate=True)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise StartupError(f"{path} cannot be read: {type(error).__name__}") from error
    return f"Basic {text}" if text else ""
