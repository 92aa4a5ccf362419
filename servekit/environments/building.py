# SPDX-License-Identifier: Apache-2.0
"""Builds the environment of a model. Runs in: prepare child, commands."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions, version
from pathlib import Path
from typing import IO, Final

from packaging.version import Version
from servekit_archiver.cache.places import own_folder
from servekit_archiver.locking.lock_file import SOURCES
from servekit_archiver.locking.tools import ToolFailed, pip_command, pip_steps, run_tool

from servekit.environments.server_side import (
    conflicts,
    let_import_server,
    needs_of_workers,
    site_packages,
)
from servekit.environments.store import (
    FACTS_FILE,
    FOLDER,
    UNUSED_S,
    building,
    python_of,
    remove_unused,
)
from servekit.environments.wanted import WantedPackages
from servekit.errors import StartupError

__all__ = ["environment_for"]

RAW_PROGRESS: Final = Version("24.1")  #: the first pip that tells how far a download is

Tell = Callable[[str], None]


def environment_for(wanted: WantedPackages, cache: Path, tell: Tell) -> Path:
    """Return the environment in *cache* that holds the packages of *wanted*, built if need be.

    If two servers need it at the same time, one of them builds it and the other waits.

    :param tell: gets what is being done.
    :raises StartupError: a package cannot be installed; the message ends with the file that has
        the whole output. Or a worker would not work with a package.
    :raises ArchiveError: the Python or pip is missing, or others may write to the cache.
    """
    folder = own_folder(cache / FOLDER)
    environment = folder / wanted.key()
    with building(
        environment, lambda: tell("waiting for another process that builds the environment")
    ):
        if not (environment / FACTS_FILE).exists():
            tell("building the environment")
            remove_unused(folder, UNUSED_S)
            shutil.rmtree(environment, ignore_errors=True)  # an incomplete one
            _Build(wanted, environment, tell).run()
        os.utime(environment / FACTS_FILE)
    if problems := list(conflicts(environment)):
        raise StartupError(f"{wanted.file.name}: {'; '.join(problems)}")
    return environment


@dataclass(frozen=True, slots=True)
class _Build:
    """One environment that is being built."""

    wanted: WantedPackages
    environment: Path
    tell: Tell

    def run(self) -> None:
        """Build it; it is complete when its facts are written."""
        wanted = self.wanted
        with self.environment.with_suffix(".log").open("w", encoding="utf-8") as log:
            command = [wanted.interpreter(), "-m", "venv", "--without-pip", "--symlinks"]
            self._run([*command, str(self.environment)], log)
            if wanted.is_locked:  # all of its packages are installed, whatever the server has
                self._run(self._pip(*self._arguments()), log)
            let_import_server(self.environment, all_packages=wanted.is_of_server)
            if not wanted.is_locked:
                self._run(self._pip(*self._arguments()), log)
            if not wanted.is_of_server:
                self._add_needs(log)
        draft = self.environment / f"{FACTS_FILE}.tmp"
        draft.write_text(json.dumps(self._facts(), indent=1), encoding="utf-8")
        draft.replace(self.environment / FACTS_FILE)

    def _arguments(self) -> Iterator[str]:
        wanted = self.wanted
        if wanted.is_locked:
            yield from ("--require-hashes", "--no-deps")  # the lock has the dependencies, too
        if wanted.wheels:
            yield from ("--no-index", "--find-links", str(wanted.wheels), "--only-binary", ":all:")
            file = self.environment / "requirements.txt"
            file.write_text(SOURCES.sub("", wanted.file.read_text("utf-8")), encoding="utf-8")
        else:
            file = wanted.file
        yield from ("--requirement", str(file))

    def _add_needs(self, log: IO[str]) -> None:
        """Install the needs of workers, without changing the packages of the model."""
        pins = self.environment / "pins.txt"
        pins.write_text("".join(f"{pin}\n" for pin in self._packages()), encoding="utf-8")
        needs = (f"{need.name}{need.specifier}" for need in needs_of_workers())
        self._run(self._pip("--constraint", str(pins), *needs), log)

    def _pip(self, *arguments: str) -> list[str]:
        command = pip_command(python_of(self.environment), "install")
        if Version(version("pip")) >= RAW_PROGRESS:
            command += ["--progress-bar", "raw"]
        return [*command, *arguments]

    def _run(self, command: Sequence[str], log: IO[str]) -> None:
        steps = pip_steps(lambda step: self.tell(f"building the environment: {step}"))

        def on_line(line: str) -> None:
            steps(line)
            if not line.startswith("Progress "):
                log.write(f"{line}\n")
                log.flush()

        log.write(f"$ {' '.join(command)}\n")
        try:
            run_tool(command, self.wanted.file.parent, on_line)
        except ToolFailed as failed:
            for line in failed.tail:
                sys.stderr.write(f"pip: {line}\n")
            only = " (only the packed wheels are used)" if self.wanted.wheels else ""
            name = self.wanted.file.name
            raise StartupError(f"{name}: pip: {failed.reason}{only}; see {log.name}") from failed

    def _packages(self) -> list[str]:
        found = distributions(path=[str(site_packages(self.environment))])
        return sorted(f"{each.name}=={each.version}" for each in found)

    def _facts(self) -> dict[str, object]:
        wanted = self.wanted
        return {
            "python": wanted.python,
            "locked": wanted.is_locked,
            "packages": self._packages(),
        }
