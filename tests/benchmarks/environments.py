# SPDX-License-Identifier: Apache-2.0
"""Where each server's programs come from: a separate virtual environment, or Debian."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks.errors import Missing

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / ".bench"  #: environments, made on first use; git ignores it
SEARCH_PATH: Final = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
FOREIGN: Final = ("PYTHON", "MOSEC_", "SERVEKIT_", "TS_", "TOKIO_")  #: would change a server


def virtual_environment(name: str, *requirements: str) -> Path:
    """Return the ``bin`` of an environment that holds the newest *requirements*.

    Made on first use, upgraded in every run; without a network an old one is good enough.
    """
    directory = HOME / name
    python = directory / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", "--clear", str(directory)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    stamp = directory / ".installed"
    try:
        _run([*pip, "--upgrade", *requirements])
    except Missing as error:
        if not stamp.exists():
            raise
        print(f"not upgraded: {error}", file=sys.stderr)
    stamp.touch()
    return python.parent


def debian_program(name: str, package: str | None = None) -> str:
    """Return the path of a program, installing its Debian package when we may."""
    package = package or name
    path = shutil.which(name, path=SEARCH_PATH)
    if path is None:
        _install(package)
        path = shutil.which(name, path=SEARCH_PATH)
    if path is None:
        raise Missing(f"{name} is not installed; try: sudo apt-get install {package}")
    return path


def debian_library(name: str, package: str) -> None:
    """See to it that the loader finds a library, by its Debian package when we may."""

    def is_found() -> bool:
        return f"{name} " in _run(["ldconfig", "-p"])

    if not is_found():
        _install(package)
    if not is_found():
        raise Missing(f"{name} is not installed; try: sudo apt-get install {package}")


def _install(package: str) -> None:
    """Install a Debian package, if we may."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _run(["apt-get", "update", "-qq"])
        apt = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends"]
        _run([*apt, "-o", "DPkg::Lock::Timeout=120", package])


def own_program(name: str) -> str:
    """Return the path of a command of the environment that runs the benchmark."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise Missing(f"{path} is not there; try: make install")
    return str(path)


def version_of(python: Path, distribution: str) -> str:
    """Return the version of a distribution installed in an environment."""
    code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    return _run([str(python), "-c", code]).strip()


def clean_environment(**extra: str) -> dict[str, str]:
    """Return our environment without the variables that would change a server's settings."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    return kept | extra


def _run(argv: Sequence[str]) -> str:
    """Run a set-up command to its end; show what it said only when it fails."""
    environment = clean_environment(DEBIAN_FRONTEND="noninteractive", PATH=SEARCH_PATH)
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise Missing(f"{' '.join(argv)} exited with {done.returncode}: {' / '.join(said)}")
    return done.stdout
