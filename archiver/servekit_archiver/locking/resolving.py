# SPDX-License-Identifier: Apache-2.0
"""Makes a lock with uv, and downloads its wheels with pip."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.locking.lock_file import (
    SOURCES,
    LockHeader,
    digest_of,
    lock_path,
    read_header,
    wheels_path,
)
from servekit_archiver.locking.tools import (
    ToolFailed,
    find_python,
    find_uv,
    pip_command,
    pip_steps,
    run_tool,
)

__all__ = ["Tell", "download_wheels", "write_lock"]

Tell = Callable[[str], object]  #: gets what is being done

#: the server's packages are those of the server, whatever the model names
NOT_LOCKED: Final = ("servekit", "servekit-archiver")


def write_lock(requirements: Path, python: str, tell: Tell) -> None:
    """Write the lock of *requirements*; versions of an older lock are kept where they still fit.

    :param python: the version to lock for, such as 3.11.
    :raises ArchiveError: uv is missing or finds no versions, or the file is not ours to replace.
    """
    lock = lock_path(requirements)
    if lock == requirements or (lock.exists() and read_header(lock) is None):
        raise ArchiveError(f"{lock}: was not written by servekit-archive; give it another name")
    command = [find_uv(), "pip", "compile", requirements.name, "--universal", "--generate-hashes"]
    command += ["--python-version", python, "--no-header", "--no-annotate", "--quiet"]
    command += ["--no-python-downloads"]
    for name in NOT_LOCKED:
        command += ["--no-emit-package", name]
    tell(f"locking {requirements.name} for Python {python} with uv")
    with TemporaryDirectory(prefix="servekit-lock-") as scratch, refuse_os_errors(lock):
        draft = Path(scratch) / "requirements.txt"
        if lock.exists():
            shutil.copy(lock, draft)
        try:
            run_tool([*command, "--output-file", str(draft)], requirements.parent, lambda _: None)
        except ToolFailed as failed:
            reason = " ".join(" ".join(failed.tail).split())
            raise ArchiveError(f"{requirements}: uv: {reason}") from None
        header = LockHeader(python, digest_of(requirements))
        sources = SOURCES.findall(requirements.read_text("utf-8"))
        content = "".join(f"{line}\n" for line in sources) + draft.read_text("utf-8")
        own = lock.with_name(f".{lock.name}.tmp")
        own.write_text(f"{header}{content}", "utf-8")
        own.replace(lock)


def download_wheels(requirements: Path, python: str, tell: Tell) -> None:
    """Download the wheels of the lock of *requirements* for this machine into their folder.

    Wheels in it that the lock does not name are removed; those for other machines stay.

    :param python: the version that it was locked for.
    :raises ArchiveError: a package has no wheel, or pip or that Python is missing.
    """
    lock, folder = lock_path(requirements), wheels_path(requirements)
    command = pip_command(find_python(python), "download", "--progress-bar", "off")
    command += ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
    command += ["--dest", folder.name, "--requirement", lock.name]
    tell(f"downloading wheels into {folder}")
    try:
        run_tool(command, requirements.parent, pip_steps(tell))
    except ToolFailed as failed:
        raise ArchiveError(f"{lock}: pip: {failed.reason}") from None
    known = lock.read_text("utf-8")
    with refuse_os_errors(folder):
        for wheel in folder.glob("*.whl"):
            with wheel.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if f"sha256:{digest}" not in known:
                wheel.unlink()
