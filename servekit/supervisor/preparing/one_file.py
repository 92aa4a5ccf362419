# SPDX-License-Identifier: Apache-2.0
"""A model that is a class in one Python file, without a manifest. Runs in: the prepare child."""

from pathlib import Path

from servekit_archiver import Manifest

from servekit.settings.models import name_of_class
from servekit.supervisor.preparing.stamping import stamp

__all__ = ["open_class"]


def open_class(file: Path, service: str, name: str) -> tuple[Path, Manifest, str]:
    """Return directory, manifest and stamp of a model that is the class *service* of *file*.

    The directory is the one that the module is imported from, so the class can import its
    neighbours: above the packages that the file is in. A ``model.toml`` there is not read.

    :param name: of the model; "" takes that of the class.
    :raises ManifestError: no model can have this name.
    """
    file = file.resolve()
    directory = file.parent
    while (directory / "__init__.py").is_file():
        directory = directory.parent
    module = ".".join(file.relative_to(directory).with_suffix("").parts)
    table = {"name": name or name_of_class(service), "service": f"{module}:{service}"}
    return directory, Manifest.from_mapping(table, source=f"{file}:{service}"), stamp(file)
