# SPDX-License-Identifier: Apache-2.0
"""Wheels of one module, which no index has."""

import zipfile
from pathlib import Path

__all__ = ["write_wheel"]


def write_wheel(folder: Path, name: str, version: str, needs: str = "") -> Path:
    """Write the wheel of a module that knows its ``VERSION``, and return its path.

    :param needs: a requirement of it.
    """
    folder.mkdir(exist_ok=True)
    facts, path = f"{name}-{version}.dist-info", folder / f"{name}-{version}-py3-none-any.whl"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", f"VERSION = '{version}'\n")
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
        wheel.writestr(f"{facts}/METADATA", metadata)
        wheel.writestr(f"{facts}/WHEEL", kind)
        wheel.writestr(f"{facts}/RECORD", "")
    return path
