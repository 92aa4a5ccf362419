# SPDX-License-Identifier: Apache-2.0
"""A model's ``requirements.txt``, checked against the environment of the server."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from servekit.errors import StartupError

__all__ = ["check", "missing"]

FLAG = "--install-requirements"


def check(path: Path) -> None:
    """Check that this environment holds all that *path* asks for.

    :raises StartupError: names what is missing and the flag that installs it.
    """
    if lacking := missing(path.read_text(encoding="utf-8")):
        raise StartupError(
            f"{path.name}: {'; '.join(lacking)}. Install it, or use {FLAG}, which makes the model"
            " a separate environment"
        )


def missing(text: str) -> list[str]:
    """Return the requirements that this environment does not fulfil, in words."""
    return [problem for line in _lines(text) if (problem := _problem(line))]


def _lines(text: str) -> Iterator[str]:
    """Yield the requirements, without options of pip and hashes."""
    for raw in text.replace("\\\n", " ").splitlines():
        line = raw.partition(" #")[0].partition(" --")[0].strip()
        if line and not line.startswith(("#", "-c", "--")):
            yield line


def _problem(line: str) -> str:
    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        return f"{line!r} can only be installed, not checked"
    if wanted.marker and not wanted.marker.evaluate():
        return ""
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        return f"{wanted} is not installed"
    if wanted.specifier.contains(found, prereleases=True):
        return ""
    return f"{wanted} is required, {found} is installed"
