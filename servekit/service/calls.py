# SPDX-License-Identifier: Apache-2.0
"""How a service calls other models of the same server: what ``Context`` needs for it."""

from collections.abc import Sequence
from typing import Any, Final, NoReturn, Protocol

from servekit.errors import CallError
from servekit.service.request import Request

__all__ = ["NO_CALLS", "Caller", "NoCalls", "no_stand_in", "not_named"]

NOT_NAMED = 403
UNAVAILABLE = 503


class Caller(Protocol):
    """Calls other models for one service. Runs in: worker."""

    def call(self, model: str, value: Any, requests: Sequence[Request]) -> Any:
        """Return the output of *model* for *value*, on behalf of *requests*.

        :raises CallError: there is none.
        """

    async def call_async(self, model: str, value: Any, requests: Sequence[Request]) -> Any:
        """Do the same in an event loop of asyncio."""


class NoCalls:
    """The ``Caller`` of a model that names no others."""

    def call(self, model: str, _value: Any, _requests: Sequence[Request]) -> NoReturn:
        """Refuse.

        :raises CallError: always.
        """
        raise not_named(model)

    async def call_async(self, model: str, _value: Any, _requests: Sequence[Request]) -> NoReturn:
        """Refuse; see ``call``."""
        raise not_named(model)


NO_CALLS: Final = NoCalls()


def not_named(model: str) -> CallError:
    """Return the error of a call of *model*, which ``model.toml`` does not allow."""
    return CallError(model, NOT_NAMED, "calls in model.toml does not name it")


def no_stand_in(model: str, _value: Any) -> NoReturn:
    """Refuse to answer in place of *model*.

    :raises CallError: always.
    """
    detail = "no server answers; define stand_in() for examples and tests"
    raise CallError(model, UNAVAILABLE, detail)
