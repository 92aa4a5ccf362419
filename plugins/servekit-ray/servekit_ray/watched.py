# SPDX-License-Identifier: Apache-2.0
"""One server, as the controller sees it, and the question whether it is well."""

import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from time import monotonic
from typing import Any, Final

from servekit_ray.state import ServerStatus, ShippedModel

__all__ = ["WatchedServer", "get"]

PING_TIMEOUT_S: Final = 2.0
REFUSALS: Final = 2  #: pings in a row that find a closed port, until a server is lost
SILENCES: Final = 3  #: pings in a row without an answer in time: it hangs, or is only busy
REFUSED: Final = -1  #: in place of a status: nothing listens there
#: connects to the server itself, whatever HTTP_PROXY says, and takes any certificate: a node is
#: known by its address, which is rarely in the certificate
DIRECT: Final = urllib.request.build_opener(
    urllib.request.ProxyHandler({}),
    urllib.request.HTTPSHandler(context=ssl._create_unverified_context()),  # noqa: S323, SLF001
)


@dataclass(eq=False)
class WatchedServer:
    """One server, and its actor."""

    name: str
    actor: Any
    state: str = "waiting"
    url: str = ""
    pid: int = 0
    ray_node: str = ""
    models: dict[str, ShippedModel] = field(default_factory=dict)
    refusals: int = 0
    silences: int = 0
    began: float = field(default_factory=monotonic)

    @property
    def status(self) -> ServerStatus:
        """The server as others see it."""
        models = {name: model.shown for name, model in self.models.items()}
        url = self.url if self.state == "ready" else ""
        age_s = round(monotonic() - self.began, 1)
        return ServerStatus(self.name, self.state, url, self.ray_node, models, age_s, self.pid)

    def note(self, status: int) -> bool:
        """Take notice of the answer to a ping; return whether the server is lost."""
        self.refusals = self.refusals + 1 if status == REFUSED else 0
        self.silences = self.silences + 1 if status == 0 else 0
        self.state = "ready" if status == 200 else "unready"
        return self.refusals >= REFUSALS or self.silences >= SILENCES


def get(url: str) -> tuple[int, bytes]:
    """Return status and body; 0 if no answer comes, or ``REFUSED``. Runs in: a thread."""
    try:
        with DIRECT.open(url, timeout=PING_TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        return (REFUSED if isinstance(reason, ConnectionRefusedError) else 0), b""
