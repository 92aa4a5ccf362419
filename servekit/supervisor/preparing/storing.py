# SPDX-License-Identifier: Apache-2.0
"""Runs ``store_assets`` of a model in a separate process. Runs in: prepare child, commands."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from servekit_archiver import Manifest

from servekit.errors import AssetError

if TYPE_CHECKING:
    from subprocess import Popen

__all__ = ["StoreAssets"]

TICK_S = 0.5  #: how often progress is reported
REASON_BYTES = 4096


@dataclass(frozen=True, slots=True)
class StoreAssets:
    """``store_assets`` of one model."""

    manifest: Manifest
    directory: Path  #: the model, with its code
    python: str = sys.executable  #: the interpreter of the model's environment

    def run(self, into: Path, progress: Callable[[int], object]) -> None:
        """Let the services write to *into*. Blocks until they have.

        :param progress: gets the size of *into* now and then.
        :raises AssetError: the method does not exist, or failed; its files are kept.
        """
        import subprocess  # imported here, since few models store assets

        from servekit.supervisor.os.environment import prepare_environment
        from servekit.supervisor.os.process import python_module

        arguments = str(os.getpid()), str(self.directory), str(into)
        command = python_module("servekit.worker.boot.store_assets", *arguments, python=self.python)
        environment, pipe = prepare_environment(os.environ), subprocess.PIPE
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, cwd=self.directory, env=environment
        ) as process:
            try:
                _give(process, self.manifest.to_json())
                while not _has_ended(process):
                    progress(_size(into))
            finally:
                process.kill()
            progress(_size(into))
            if process.returncode:
                raise AssetError(f"store_assets: {_reason(process)}")


def _give(process: "Popen[bytes]", text: bytes) -> None:
    with suppress(BrokenPipeError), cast("IO[bytes]", process.stdin) as theirs:
        theirs.write(text)


def _has_ended(process: "Popen[bytes]") -> bool:
    from subprocess import TimeoutExpired

    try:
        process.wait(TICK_S)
    except TimeoutExpired:
        return False
    return True


def _size(directory: Path) -> int:
    """Return the size of all files; some may be removed meanwhile."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - many of them
            except OSError:
                continue
    return total


def _reason(process: "Popen[bytes]") -> str:
    """Return its last output, without waiting for other processes that hold the pipe open."""
    descriptor = cast("IO[bytes]", process.stdout).fileno()
    os.set_blocking(descriptor, False)
    try:
        said = os.read(descriptor, REASON_BYTES).decode(errors="replace")
    except BlockingIOError:
        said = ""
    return said or f"exited with {process.returncode}"
