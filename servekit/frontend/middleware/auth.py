# SPDX-License-Identifier: Apache-2.0
"""Authorization: decided when the header section has arrived, before the body is read."""

from __future__ import annotations

import logging
import re
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Any

from servekit.errors import (
    Forbidden,
    InvalidToken,
    ServekitError,
    TooManyRequests,
    Unauthorized,
)
from servekit.frontend.http.client_address import ClientAddresses
from servekit.frontend.http.targets import path_of
from servekit.hookspecs import PredictionRequest
from servekit.service.identity import Identity
from servekit.settings.tokens import TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.protocols import Find, Guard
    from servekit.settings.tokens import Tokens

    #: all plugins' ``authorize``, as pluggy calls them
    Authorize = Callable[..., list[Any]]

__all__ = ["Access", "TokenNeeded", "check_token"]

BEARER = re.compile(rb"bearer +(%b)[ \t]*" % TOKEN.pattern, re.IGNORECASE)
READING = (b"GET", b"HEAD", b"OPTIONS")
MOST_LOGGED = 1000  #: addresses whose wrong token is logged
REFUSALS = (Unauthorized, Forbidden, TooManyRequests)

log = logging.getLogger("servekit.frontend")


class Access:
    """Guards the clients' listener: predictions need a token, or the consent of plugins, or both.

    Reading is open to everybody, except for paths that plugins protect: they show predictions.
    """

    def __init__(
        self,
        tokens: Tokens,
        authorize: Authorize | None,
        find: Find,
        protected: Mapping[str, Callable[[str], str]],
        managed: Sequence[str] = (),
        own_access: Sequence[str] = (),
        clients: ClientAddresses = ClientAddresses(()),  # noqa: B008 - it has no state
    ) -> None:
        """Admit requests that have a token for predictions and that no plugin refuses.

        :param find: looks up the route of a request.
        :param protected: as ``Routes.protected``.
        :param managed: as ``Routes.managed``.
        :param own_access: as ``Routes.own_access``.
        :param clients: finds the addresses of clients.
        """
        self._tokens = tokens
        self._clients = clients
        self._authorize = authorize
        self._find = find
        self._protected = {path.encode(): model_of for path, model_of in protected.items()}
        self._managed = tuple(path.encode() for path in managed)
        self._own_access = tuple(path.encode() for path in own_access)

    def __call__(self, exchange: Exchange) -> Guard:
        """Return the guard of the requests of *exchange*."""
        return partial(self._judge, exchange)

    def judge_model(
        self, exchange: Exchange, request: HttpRequest, model: str
    ) -> ServekitError | Identity | None:
        """Ask the plugins about a prediction whose body names its *model*."""
        if self._authorize is None:
            return None
        asked = self._request(exchange, model, request.method, request.headers)
        return self._ask_plugins(self._authorize, asked)

    def _judge(
        self,
        exchange: Exchange,
        method: bytes,
        target: bytes,
        headers: dict[bytes, bytes],
        has_body: bool,
    ) -> ServekitError | Identity | None:
        route, path = self._find(method, target, headers), path_of(target)  # as views see it
        model_of = self._model_of(path)
        if route is None and path.startswith(self._own_access):
            return None
        if route is None and path.startswith(self._managed):
            given = headers.get(b"authorization")
            return check_token(given, self._tokens.manage, self._tokens.predict)
        if method in READING and not has_body and model_of is None and route is None:
            return None
        if route is not None and route.is_provisional:
            route = None
        verdict: ServekitError | Identity | None = None
        if self._tokens.predict:
            given = headers.get(b"authorization")
            verdict = check_token(given, self._tokens.predict, self._tokens.manage)
        if verdict is None and self._authorize:
            model = route.row.name if route is not None else ""
            if model_of is not None and not model:
                model = model_of(path.decode("latin-1"))
            if model:
                request = self._request(
                    exchange, model, method, headers, is_prediction=route is not None
                )
                verdict = self._ask_plugins(self._authorize, request)
        if isinstance(verdict, ServekitError) and route is not None:
            route.metrics.count_status(verdict.status)
        return verdict

    def _request(
        self,
        exchange: Exchange,
        model: str,
        method: bytes,
        headers: dict[bytes, bytes],
        *,
        is_prediction: bool = True,
    ) -> PredictionRequest:
        return PredictionRequest(
            method=method.decode("latin-1"),
            model=model,
            headers={
                name.decode("latin-1"): value.decode("latin-1").strip(" \t")
                for name, value in headers.items()
            },
            peer=self._clients.client_of(exchange.peer, headers),
            subject=exchange.subject,
            is_prediction=is_prediction,
        )

    def _model_of(self, path: bytes) -> Callable[[str], str] | None:
        """Return the function that finds the model of *path*, if it is protected."""
        for start, model_of in self._protected.items():
            if path.startswith(start):
                return model_of
        return None

    def _ask_plugins(
        self, authorize: Authorize, request: PredictionRequest
    ) -> ServekitError | Identity | None:
        """Return the refusal with the lowest status, else the identity that plugins agree on."""
        try:
            return _joined([_checked(opinion) for opinion in authorize(request=request)])
        except Exception:  # a plugin may raise anything, and a bug must not admit anybody
            log.exception("authorize failed for a prediction of %s", request.model)
            return ServekitError()


class TokenNeeded:
    """Guards management over TCP: every request needs a token."""

    def __init__(self, tokens: Tokens, clients: ClientAddresses) -> None:
        """Admit requests that have a token for management."""
        self._tokens, self._clients = tokens, clients
        self._refused: set[str] = set()  #: addresses whose wrong token is in the log

    def __call__(self, exchange: Exchange) -> Guard:
        """Return the guard of the requests of *exchange*."""
        return partial(self._judge, exchange)

    def _judge(
        self,
        exchange: Exchange,
        _method: bytes,
        _target: bytes,
        headers: dict[bytes, bytes],
        _has_body: object,
    ) -> ServekitError | None:
        given = headers.get(b"authorization")
        refusal = check_token(given, self._tokens.manage, self._tokens.predict)
        if refusal is not None and given is not None:
            self._log(self._clients.client_of(exchange.peer, headers), refusal)
        return refusal

    def _log(self, address: str, refusal: ServekitError) -> None:
        """Log a wrong token once for each *address*, so that guessing fills no disk."""
        if address in self._refused or len(self._refused) >= MOST_LOGGED:
            return
        self._refused.add(address)
        text = "management: %s is refused: %s (logged once for each address)"
        log.warning(text, address or "a client", refusal)


def check_token(
    given: bytes | None, ours: Sequence[bytes], others: Sequence[bytes]
) -> ServekitError | None:
    """Return why the ``Authorization`` *given* is refused in one area, or ``None``.

    :param ours: digests of the tokens for this area.
    :param others: digests of the tokens for the other area: their holder gets a 403.
    """
    if given is None or given[:6].lower() != b"bearer":
        return Unauthorized("a bearer token is needed")
    found = BEARER.fullmatch(given)
    digest = sha256(found[1]).digest() if found else b""
    if _is_among(digest, ours):
        return None
    if _is_among(digest, others):
        return Forbidden("this token is for another area")
    return InvalidToken("this token is not known")


def _is_among(digest: bytes, digests: Sequence[bytes]) -> bool:
    """Compare with every digest, so that the time taken reveals nothing."""
    return sum(compare_digest(digest, each) for each in digests) > 0


def _checked(opinion: object) -> ServekitError | Identity:
    if not isinstance(opinion, (*REFUSALS, Identity)):
        raise TypeError(f"authorize returned {type(opinion).__name__}")
    return opinion


def _joined(opinions: list[ServekitError | Identity]) -> ServekitError | Identity | None:
    """Return what several plugins say together; the order of plugins decides nothing."""
    refusals = [each for each in opinions if isinstance(each, ServekitError)]
    if refusals:
        return min(refusals, key=lambda refusal: refusal.status)
    if any(each != opinions[0] for each in opinions):
        raise ValueError("two plugins name different identities")
    return opinions[0] if opinions else None
