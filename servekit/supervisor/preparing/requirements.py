# SPDX-License-Identifier: Apache-2.0
"""A model's ``requirements.txt``: checked against this environment, or installed into its own."""

import fcntl
import hashlib
import shutil
import site
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from servekit_archiver import default_cache_dir

from servekit.errors import StartupError

__all__ = ["check", "environment_for", "missing"]

FLAG = "--install-requirements"
OUTPUT_LINES = 15  #: the last lines of a failed pip
COMPLETE = "complete"


def check(path: Path) -> None:
    """Pass if this environment holds all that *path* asks for.

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


def environment_for(path: Path, cache: Path | None, tell: Callable[[str], None]) -> str:
    """Return the interpreter of an environment that holds what *path* asks for.

    It is built once for these requirements and this Python, and has the packages of the server
    too. If two servers need it at the same time, one of them builds it.

    :raises StartupError: pip failed; the end of its output is in the message.
    """
    directory = (cache or default_cache_dir()) / "environments" / _key(path)
    directory.parent.mkdir(parents=True, exist_ok=True)
    python = directory / "bin" / "python"
    with (directory.parent / f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released with the file, however we end
        if not (directory / COMPLETE).exists():
            tell("installing requirements")
            shutil.rmtree(directory, ignore_errors=True)  # an incomplete one
            _build(directory, python, path)
            (directory / COMPLETE).touch()
    return str(python)


def _key(path: Path) -> str:
    """Return a digest of the file, the Python and the server's environment."""
    server = f"{sys.version}\0{sys.prefix}\0{sysconfig.get_platform()}\0"
    return hashlib.sha256(server.encode() + path.read_bytes()).hexdigest()[:32]


def _build(directory: Path, python: Path, path: Path) -> None:
    venv.EnvBuilder(symlinks=True, with_pip=False).create(directory)
    link = "import site; " + "; ".join(f"site.addsitedir({place!r})" for place in _packages())
    library = next(directory.glob("lib/python*/site-packages"))
    (library / "servekit-server.pth").write_text(link + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--requirement", str(path)]
    done = subprocess.run(
        [*command, *quiet],
        cwd=path.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        for line in done.stdout.splitlines()[-OUTPUT_LINES:]:
            sys.stderr.write(f"pip: {line}\n")
        last = (done.stdout.strip().splitlines() or [f"exited with {done.returncode}"])[-1]
        raise StartupError(f"{path.name}: pip: {last}")


def _packages() -> list[str]:
    """Return the directories in which this interpreter finds packages."""
    places = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        places.append(site.getusersitepackages())
    return [place for place in places if Path(place).is_dir()]
