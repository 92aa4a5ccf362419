# SPDX-License-Identifier: Apache-2.0
"""Checks an archive against the digest that the operator expects. Runs in: the prepare child."""

from collections.abc import Iterable
from pathlib import Path

from servekit.errors import StartupError
from servekit.settings.deployments import Deployment

__all__ = ["refuse_late_digest", "require_digest"]


def require_digest(path: Path, name: str, deployments: Iterable[Deployment]) -> None:
    """Check that the file at *path* has the SHA-256 that *deployments* give the model *name*.

    :raises StartupError: it has another one, or is a directory.
    """
    wanted = [each for each in deployments if each.sha256 and each.name == name]
    if not wanted:
        return
    where = f"{wanted[-1].source}: {name}.sha256"
    if path.is_dir():
        raise StartupError(f"{where}: only archives have one, and {path} is a directory")
    import hashlib  # few models are named with a digest

    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted[-1].sha256:
        raise StartupError(f"{where}: expected {wanted[-1].sha256}, but {path} has {found}")


def refuse_late_digest(name: str, deployments: Iterable[Deployment]) -> None:
    """Check that no digest should have been checked before the *name* in the manifest was known.

    :raises StartupError: there is one.
    """
    for each in deployments:
        if each.sha256 and each.name == name:
            text = f"serve the model as {name}=PATH, so that it is checked before it is unpacked"
            raise StartupError(f"{each.source}: {name}.sha256: {text}")
