# SPDX-License-Identifier: Apache-2.0
"""Access to management: the server judges the token of each request, by its own rules.

The process gets no tokens. It passes the ``Authorization`` of its clients on to a path of the
server that only the token for management opens; so a token that is replaced is replaced here, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from servekit_torchserve.management.errors import InvalidKey

if TYPE_CHECKING:
    from servekit_torchserve.management.upstream import Upstream

__all__ = ["JUDGE_PATH", "ManagementAccess"]

JUDGE_PATH: Final = "/torchserve/may-manage"  #: on the listener of clients
REFUSED: Final = (
    "Token Authorization failed. Token either incorrect, expired, or not provided correctly"
)


class ManagementAccess:
    """Admits requests with a token for management; or all, if the operator wants that."""

    def __init__(self, clients: Upstream, *, needs_token: bool) -> None:
        """Ask *clients*, the listener of clients."""
        self._clients, self._needs_token = clients, needs_token

    def require(self, authorization: str, origin: str = "") -> None:
        """Check that a request may manage.

        :param origin: header that browsers send for requests of a page.
        :raises InvalidKey: it may not.
        """
        if not self._needs_token:
            if origin:  # no token protects us from pages that the operator looks at
                raise InvalidKey("requests of web pages need a token")
            return
        fields = {"Authorization": authorization} if authorization else {}
        status, _, _ = self._clients.fetch("GET", JUDGE_PATH, headers=fields)
        if status != 204:
            raise InvalidKey(REFUSED)
