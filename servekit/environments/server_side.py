# SPDX-License-Identifier: Apache-2.0
"""The server's part of an environment: servekit, and the packages that its workers import."""

from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import servekit_archiver
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import servekit
from servekit.environments.wanted import server_packages

__all__ = ["conflicts", "let_import_server", "needs_of_workers", "site_packages"]

#: the distributions that a worker imports beside servekit, the archiver and the model
WORKER_NEEDS: Final = ("msgpack", "msgspec", "multipart", "numpy", "orjson", "pluggy")


def let_import_server(environment: Path, *, all_packages: bool) -> None:
    """Let workers in *environment* import servekit, whatever is installed there.

    ``servekit`` and ``servekit_archiver`` are those of the server and come first on ``sys.path``,
    through a folder of links with nothing else. The packages of the model come next.

    :param all_packages: let them import the other packages of the server, too, last of all.
    """
    links = environment / "server"
    links.mkdir()
    for package in (servekit, servekit_archiver):
        (links / package.__name__).symlink_to(Path(package.__path__[0]).resolve())
    lines = [f"import sys; sys.path.insert(0, {str(links)!r})"]
    if all_packages:
        added = (f"site.addsitedir({place!r})" for place in server_packages())
        lines.append(f"import site; {'; '.join(added)}")
    own = site_packages(environment) / "servekit-server.pth"
    own.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def site_packages(environment: Path) -> Path:
    """Return the folder with the packages of the model."""
    return next(environment.glob("lib/python*/site-packages"))


def needs_of_workers() -> list[Requirement]:
    """Return what workers of this server need, as its distribution says."""
    found = []
    for name in ("servekit", "servekit-archiver"):
        try:
            lines = distribution(name).requires or []
        except PackageNotFoundError:  # it runs from a checkout
            continue
        needs = (Requirement(line) for line in lines)
        found += [each for each in needs if canonicalize_name(each.name) in WORKER_NEEDS]
    return found


def conflicts(environment: Path) -> Iterator[str]:
    """Yield each package in *environment* with which a worker would not work, in words."""
    path = [str(site_packages(environment))]
    for need in needs_of_workers():
        for found in Distribution.discover(name=need.name, path=path):
            if not need.specifier.contains(found.version, prereleases=True):
                yield f"{need.name} {found.version}, but workers of this server need {need}"
