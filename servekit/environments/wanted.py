# SPDX-License-Identifier: Apache-2.0
"""The packages that a model needs, and the name of the environment that holds them."""

import hashlib
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servekit_archiver import Manifest
from servekit_archiver.locking.tools import RUNNING, find_python

import servekit

__all__ = ["WantedPackages", "server_packages"]

FACTS: Final = "import sys, sysconfig; print(sys.version, sysconfig.get_platform())"


@dataclass(frozen=True, slots=True)
class WantedPackages:
    """The packages that a model needs."""

    file: Path  #: a requirements file; a lock has the hashes of all packages
    python: str = RUNNING  #: the version that they are for, such as 3.12
    is_locked: bool = False
    wheels: Path | None = None  #: the folder of all wheels, if they are packed

    @classmethod
    def of(cls, manifest: Manifest, directory: Path) -> "WantedPackages | None":
        """Return what the model in *directory* needs, or ``None`` if it names no requirements."""
        if manifest.requirements is None:
            return None
        if (lock := manifest.lock) is None:
            return cls(directory / manifest.requirements)
        wheels = directory / lock.wheels if lock.wheels else None
        return cls(directory / lock.file, lock.python, is_locked=True, wheels=wheels)

    @property
    def is_of_server(self) -> bool:
        """Whether the Python is that of the server, so that its packages can be used, too."""
        return self.python == RUNNING

    def interpreter(self) -> str:
        """Return the path of the Python.

        :raises ArchiveError: it is not installed.
        """
        return find_python(self.python)

    def key(self) -> str:
        """Return the name of the environment.

        :raises ArchiveError: the Python is not installed.
        """
        if self.is_of_server:
            facts = f"{sys.version} {sysconfig.get_platform()}"
        else:
            command = [self.interpreter(), "-c", FACTS]
            facts = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        places = "\0".join([facts, str(servekit.__path__[0]), *server_packages()])
        return hashlib.sha256(f"{places}\0".encode() + self.file.read_bytes()).hexdigest()[:32]


def server_packages() -> list[str]:
    """Return the directories in which this interpreter finds packages."""
    places = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        places.append(site.getusersitepackages())
    return [place for place in places if Path(place).is_dir()]
