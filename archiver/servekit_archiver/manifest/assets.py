# SPDX-License-Identifier: Apache-2.0

"""The ``[assets.NAME]`` of a manifest: files that are too large, or too shared, for an archive."""

import re
from dataclasses import dataclass
from typing import Final

from servekit_archiver.manifest.kinds import Number, Text
from servekit_archiver.manifest.record import ManifestTable, key
from servekit_archiver.names import is_reserved, name_problem

__all__ = ["ASSET_NAME", "Asset"]

URL: Final = r"[a-z][a-z0-9+.-]*://[!-~]+"
FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


def _url_problem(url: str) -> str | None:
    from urllib.parse import urlsplit  # most models have no assets

    try:
        parts = urlsplit(url)
    except ValueError as error:
        return f"is not a URL ({error})"
    if parts.password is not None:
        return "contains a password, which anybody with the archive can read"
    return "is not on this machine; write file:///path" if _is_elsewhere(*parts[:2]) else None


def _is_elsewhere(scheme: str, host: str) -> bool:
    return scheme == "file" and host not in ("", "localhost")


def _file_problem(name: str) -> str | None:
    if problem := name_problem(name):
        return problem
    return "is not the name of a file alone" if "/" in name or is_reserved(name) else None


ASSET_NAME: Final = Text(
    max_length=64,
    pattern=r"[A-Za-z0-9][A-Za-z0-9_-]*",
    says="made of letters, digits, _ and - alone, beginning with a letter or digit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset(ManifestTable):
    """Content outside the archive: a file that is fetched once, or a file or folder that the
    service's ``store_assets`` makes once."""

    url: str | None = key(
        Text(max_length=2048, pattern=URL, says="a URL such as https://...", problem=_url_problem),
        default=None,
        help="where it is; the scheme says which fetcher gets it; left out: store_assets makes it",
    )
    sha256: str = key(
        Text(max_length=64, pattern=r"[0-9a-f]{64}", says="64 hexadecimal digits in lower case"),
        help="SHA-256 of the content, hexadecimal; servekit assets DIR --write finds it out",
    )
    size: int | None = key(Number(low=0, high=1 << 62, whole=True), default=None, help="bytes")
    file: str | None = key(
        Text(max_length=255, min_length=1, problem=_file_problem),
        default=None,
        help="name of the file; left out: the last part of the URL, or the asset's name",
    )

    @property
    def file_name(self) -> str:
        """The name of the file in the cache, where the service finds it."""
        from urllib.parse import urlsplit

        last = urlsplit(self.url or "").path.rpartition("/")[2]
        return self.file or (last if FILE.fullmatch(last) else "asset")
