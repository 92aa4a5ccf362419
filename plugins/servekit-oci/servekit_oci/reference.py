# SPDX-License-Identifier: Apache-2.0
"""URLs of artifacts: ``oci://REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]``."""

import re
from dataclasses import dataclass

from servekit.errors import StartupError

__all__ = ["Reference", "parse_reference"]

URL = re.compile(
    r"oci://(?P<registry>[A-Za-z0-9.-]+(:[0-9]{1,5})?)"
    r"/(?P<repository>[a-z0-9]+([._/-]+[a-z0-9]+)*)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
PLAIN = ("localhost", "127.0.0.1")  #: hosts that are reached without TLS


@dataclass(frozen=True, slots=True)
class Reference:
    """One artifact in a registry."""

    registry: str  #: ``HOST`` or ``HOST:PORT``
    repository: str
    tag: str  #: "" if only a digest is given
    digest: str  #: of the manifest: ``sha256:...``, or ""

    @property
    def is_plain(self) -> bool:
        """Whether the registry is reached by HTTP."""
        return self.registry.partition(":")[0] in PLAIN

    @property
    def base(self) -> str:
        """The URL of the repository."""
        scheme = "http" if self.is_plain else "https"
        return f"{scheme}://{self.registry}/v2/{self.repository}"


def parse_reference(url: str) -> Reference:
    """Return what *url* names.

    :raises StartupError: it is malformed.
    """
    found = URL.fullmatch(url)
    if found is None:
        raise StartupError("is not oci://REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]")
    tag, digest = found["tag"] or "", found["digest"] or ""
    return Reference(
        found["registry"], found["repository"], tag or ("" if digest else "latest"), digest
    )
