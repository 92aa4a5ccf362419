# SPDX-License-Identifier: Apache-2.0
"""The ``lock`` of a manifest: the exact packages of the model's own environment."""

from dataclasses import dataclass
from typing import Final

from servekit_archiver.manifest.kinds import Number, Text
from servekit_archiver.manifest.record import ManifestTable, key
from servekit_archiver.manifest.texts import PATH

__all__ = ["LOCK_VERSION", "PYTHON_VERSION", "Lock"]

LOCK_VERSION: Final = 1
PYTHON_VERSION: Final = Text(
    max_length=6, pattern=r"3\.(1[1-9]|[2-9][0-9])", says="a version from 3.11 on, such as 3.12"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock(ManifestTable):
    """One version of each package of the model's own environment, with its hashes."""

    version: int = key(
        Number(low=LOCK_VERSION, high=LOCK_VERSION, whole=True),
        default=LOCK_VERSION,
        help="version of this table",
    )
    file: str = key(PATH, help="pip requirements file with hashes, made by build --lock")
    python: str = key(PYTHON_VERSION, help="the Python that it was made for, such as 3.11")
    wheels: str | None = key(
        PATH, default=None, help="folder with the wheels; no index is asked then"
    )
