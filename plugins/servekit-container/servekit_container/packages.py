# SPDX-License-Identifier: Apache-2.0
"""Chooses the packages of an image: those that are installed here, at the same versions.

Packages that were installed from a folder, a wheel or a repository are on no index: they are added
as wheels, and so are those in the folders of ``--find-links``.
"""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from servekit.errors import StartupError

__all__ = [
    "build_wheels",
    "configured_links",
    "copy_links",
    "installed_closure",
    "parse_requirement",
    "pins",
    "wanted_names",
    "with_extras",
]

OUTPUT_LINES = 5  #: last lines of the output of a failed pip


def parse_requirement(text: str) -> Requirement:
    """Parse ``servekit-image`` or ``torch>=2``.

    :raises StartupError: it is not a valid requirement.
    """
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).partition("\n")[0]
        raise StartupError(f"--install: {text!r} is not a valid requirement: {reason}") from error


def installed_closure(roots: Iterable[Requirement]) -> dict[str, Distribution]:
    """Return the installed distributions that *roots* need, themselves included, by name."""
    found: dict[str, Distribution] = {}
    seen, queue = set[tuple[str, frozenset[str]]](), list(roots)
    while queue:
        wanted = queue.pop()
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # pip will look for it when the image is built
            continue
        queue += [need for need in _needs(found[name]) if _applies(need, extras)]
    return dict(sorted(found.items()))


def with_extras(name: str) -> Requirement:
    """Return the installed package *name*, with the extras whose packages are installed, too."""
    package = distribution(name)
    extras = [extra for extra in package.metadata.get_all("Provides-Extra") or () if extra]
    kept = ",".join(extra for extra in extras if _has_extra(package, extra))
    return Requirement(f"{name}[{kept}]" if kept else name)


def _has_extra(package: Distribution, extra: str) -> bool:
    wanted = [need for need in _needs(package) if _applies(need, frozenset([extra]))]
    return all(_is_installed(need) for need in wanted)


def _is_installed(need: Requirement) -> bool:
    try:
        return need.specifier.contains(distribution(need.name).version, prereleases=True)
    except PackageNotFoundError:
        return False


def _needs(package: Distribution) -> list[Requirement]:
    return [Requirement(text) for text in package.requires or ()]


def _applies(need: Requirement, extras: frozenset[str]) -> bool:
    return need.marker is None or any(
        need.marker.evaluate({"extra": extra}) for extra in ("", *extras)
    )


def pins(
    roots: Iterable[Requirement], closure: dict[str, Distribution], left_out: set[str]
) -> list[str]:
    """Return the lines of a requirements file: *roots*, and the versions of *closure*.

    :param left_out: names whose version is for others to decide.
    """
    asked = {
        str(root) for root in roots if root.extras or canonicalize_name(root.name) not in closure
    }
    versions = (
        f"{name}=={_version(package)}" for name, package in closure.items() if name not in left_out
    )
    return [*sorted(asked), *versions]


def _version(package: Distribution) -> str:
    """Return the version without its local part: an index has ``2.4.0``, and not ``2.4.0+cpu``."""
    return Version(package.version).public


def wanted_names(requirements: str, source: str) -> set[str]:
    """Return the names of the packages that a requirements file asks for.

    :raises StartupError: it refers to other files, which the image will not have.
    """
    names = set()
    for raw in requirements.replace("\\\n", " ").splitlines():
        line = raw.partition(" #")[0].partition(" --hash")[0].strip()
        if line.startswith(
            ("-r", "-c", "-e", "--requirement", "--constraint", "--editable", ".", "/")
        ):
            raise StartupError(f"{source}: {line!r} refers to another file; list packages alone")
        if line and not line.startswith(("#", "-")):
            names.add(_name(line))
    return names


def _name(line: str) -> str:
    try:
        return canonicalize_name(Requirement(line).name)
    except InvalidRequirement:  # a URL alone, say
        named = _of_file(Path(urlsplit(line).path))
        return named[0] if named else line


def _of_file(path: Path) -> tuple[str, Version] | None:
    """Return the package and the version that a wheel or a source archive is of, by its name."""
    for parse in (parse_wheel_filename, parse_sdist_filename):
        try:
            name, version, *_ = parse(path.name)
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue
        return name, version
    return None


def configured_links() -> list[Path]:
    """Return the folders that the configuration of pip, or a variable, has it look for links in."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    settings = (line.partition("=") for line in done.stdout.splitlines())
    values = (value for name, _, value in settings if name.endswith(".find-links"))
    folders = " ".join(str(ast.literal_eval(value)) for value in values).split()
    return [Path(unquote(folder.removeprefix("file://"))) for folder in dict.fromkeys(folders)]


def copy_links(
    closure: Mapping[str, Distribution], folders: Iterable[Path], directory: Path
) -> list[str]:
    """Copy into *directory* the files in *folders* that are of packages of *closure*.

    :return: their names.
    """
    wanted = {
        name: Version(package.version) for name, package in closure.items() if not _source(package)
    }
    found = dict(_links(folders, wanted))
    if found:
        directory.mkdir(exist_ok=True)
    for name, path in found.items():
        shutil.copyfile(path, directory / name)
    return sorted(found)


def _links(folders: Iterable[Path], wanted: Mapping[str, Version]) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            named = _of_file(path)
            if named and wanted.get(named[0]) == named[1]:
                yield path.name, path


def build_wheels(
    closure: Mapping[str, Distribution], directory: Path, tell: Callable[[str], object]
) -> list[str]:
    """Write a wheel into *directory* for each package that no index has, and return their names.

    :param tell: gets a line before they are built, which takes seconds.
    :raises StartupError: pip failed; the end of its output is in the message.
    """
    found = {name: source for name, package in closure.items() if (source := _source(package))}
    if not found:
        return []
    sources = list(found.values())
    tell(f"building wheels of {', '.join(found)}")
    directory.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--no-input"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "--wheel-dir", str(directory), *sources],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = done.stdout.strip().splitlines() or [f"exited with {done.returncode}"]
        told = "\n".join(f"pip: {line}" for line in lines[-OUTPUT_LINES:])
        raise StartupError(f"no wheel of {', '.join(sources)}\n{told}")
    return [path.name for path in sorted(directory.iterdir())]


def _source(package: Distribution) -> str:
    """Return where *package* was installed from; "" for an index (PEP 610)."""
    text = package.read_text("direct_url.json")
    if not text:
        return ""
    record = json.loads(text)
    url = str(record["url"])
    if "dir_info" in record:
        return unquote(urlsplit(url).path)
    if "vcs_info" in record:
        return f"{record['vcs_info']['vcs']}+{url}@{record['vcs_info']['commit_id']}"
    return url
