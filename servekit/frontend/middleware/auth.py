# SPDX-License-Identifier: Apache-2.0
"""Who may ask: decided when a header section is whole, before any of the body is kept."""

from __future__ import annotations

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
from servekit.frontend.jobs.store import name_in
from servekit.hookspecs import PredictionRequest
from servekit.settings.tokens import TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.exchange.protocols import Asker
    from servekit.frontend.pipelines.pipeline import Pipeline
    from servekit.frontend.server.front_end import FrontEnd
    from servekit.settings.tokens import Tokens

    #: from method, target, headers and whether there is a body to why the request is refused, if so
    Guard = Callable[[bytes, bytes, dict[bytes, bytes], bool], ServekitError | None]
    #: all plugins' ``authorize``, as pluggy calls them
    Authorize = Callable[..., list[Any]]

__all__ = ["Access", "TokenNeeded"]

BEARER = re.compile(rb"bearer +(%b)[ \t]*" % TOKEN.pattern, re.IGNORECASE)
READING = (b"GET", b"HEAD", b"OPTIONS")
REFUSALS = (Unauthorized, Forbidden, TooManyRequests)


class Access:
    """Guards the main listener: what reads is open, all else needs what the operator asks for.

    So does what reads of a job: its answer is a prediction's.
    """

    def __init__(self, front_end: FrontEnd, tokens: Tokens, authorize: Authorize | None) -> None:
        """Let pass who has a token for predictions and is refused by no plugin."""
        self._front_end = front_end
        self._tokens = tokens
        self._authorize = authorize

    @property
    def needs_token(self) -> bool:
        """Whether a prediction needs a bearer token of the server's own."""
        return bool(self._tokens.predict)

    def guard(self, connection: Asker) -> Guard:
        """Return what judges the requests of *connection*."""
        return partial(self._judge, connection)

    def _judge(
        self,
        connection: Asker,
        method: bytes,
        target: bytes,
        headers: dict[bytes, bytes],
        has_body: bool,
    ) -> ServekitError | None:
        if method in READING and not has_body and not name_in(target):
            return None
        batcher = self._front_end.router.find(method, target)
        refusal = None
        if self._tokens.predict:
            given = headers.get(b"authorization")
            refusal = check_token(given, self._tokens.predict, self._tokens.manage)
        if refusal is None and self._authorize:
            model = self._model(batcher, target)
            if model:
                request = _request(connection, model, method, headers)
                refusal = self._ask_plugins(self._authorize, request)
        if refusal is not None and batcher is not None:
            batcher.metrics.count_status(refusal.status)
        return refusal

    def _model(self, batcher: Batcher | Pipeline | None, target: bytes) -> str:
        """Return the model that is asked for a prediction, or whose job *target* names; or ""."""
        if batcher is not None:
            return batcher.row.name
        jobs = self._front_end.jobs
        return jobs.model_at(target) if jobs is not None else ""

    def _ask_plugins(
        self, authorize: Authorize, request: PredictionRequest
    ) -> ServekitError | None:
        """Return the refusal of the lowest status, so that the order of plugins decides nothing."""
        try:
            refusals = [_checked(opinion) for opinion in authorize(request=request)]
        except Exception:  # noqa: BLE001 - a plugin may raise anything, and must not let pass by it
            self._front_end.log_exception(f"in authorize, for a prediction of {request.model}")
            return ServekitError()
        return min(refusals, key=lambda refusal: refusal.status, default=None)


class TokenNeeded:
    """Guards management over TCP: every request needs a token, whatever it is for."""

    def __init__(self, tokens: Tokens) -> None:
        """Let pass who has a token for management."""
        self._tokens = tokens

    def guard(self, _connection: Asker) -> Guard:
        """Return what judges the requests of a connection."""
        return self._judge

    def _judge(
        self, _method: bytes, _target: bytes, headers: dict[bytes, bytes], _has_body: object
    ) -> ServekitError | None:
        given = headers.get(b"authorization")
        return check_token(given, self._tokens.manage, self._tokens.predict)


def check_token(
    given: bytes | None, ours: Sequence[bytes], others: Sequence[bytes]
) -> ServekitError | None:
    """Return why the ``Authorization`` *given* does not open an area, if it does not.

    :param ours: digests of the tokens that open it.
    :param others: of those that open another area: their holder is known, but not let in.
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
    """Compare with all of them, so that time tells nothing."""
    return sum(compare_digest(digest, each) for each in digests) > 0


def _request(
    connection: Asker, model: str, method: bytes, headers: dict[bytes, bytes]
) -> PredictionRequest:
    return PredictionRequest(
        method=method.decode("latin-1"),
        model=model,
        headers={
            name.decode("latin-1"): value.decode("latin-1").strip(" \t")
            for name, value in headers.items()
        },
        peer=connection.peer[0] if connection.peer else "",
        subject=connection.subject,
    )


def _checked(opinion: object) -> ServekitError:
    if not isinstance(opinion, REFUSALS):
        raise TypeError(f"authorize returned {type(opinion).__name__}")
    return opinion
