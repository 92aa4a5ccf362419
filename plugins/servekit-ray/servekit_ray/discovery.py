# SPDX-License-Identifier: Apache-2.0
"""Where the servers of a deployment are, for clients in the cluster."""

from collections.abc import Sequence
from typing import Final

from servekit.client import Discovery
from servekit.errors import StartupError
from servekit_ray.deployment import connect

__all__ = ["RayDiscovery"]


ANSWER_S: Final = 10.0  #: meanwhile the client uses the servers that it knows


class RayDiscovery(Discovery):
    """The servers of a deployment that get requests now.

    The first look connects this process to the cluster, if it is not connected. Ray ends a process
    that has lost its head node for long, so a program that has to outlive the head node should use
    the ``FileDiscovery`` of servekit-client, on a file of ``servekit ray addresses --follow``.
    """

    def __init__(
        self, name: str = "servekit", address: str = "auto", *, every_s: float = 1.0
    ) -> None:
        """Look for the deployment *name* of the Ray cluster at *address*."""
        self._name, self._address = name, address
        self.every_s = every_s

    def urls(self) -> Sequence[str]:
        """Return the URLs of the servers.

        :raises OSError: there is no such cluster or deployment, or it does not answer.
        """
        try:
            return connect(self._name, self._address).urls(ANSWER_S)
        except StartupError as error:
            raise OSError(str(error)) from error
