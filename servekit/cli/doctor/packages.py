# SPDX-License-Identifier: Apache-2.0
"""Checks of packages and plugins."""

import platform
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from servekit.cli.commands.plugins import describe, offer_problems
from servekit.cli.doctor.setup import Check, Setup
from servekit.extension.checks import Diagnosis
from servekit.plugins import installed_plugins

__all__ = ["PACKAGE_CHECKS"]

OWN: Final = ("servekit", "servekit-archiver")

MISSING: Final = re.compile(r"No module named '(\w+)")


def versions(_: Setup) -> Iterator[Diagnosis]:
    """Compare Python and the packages with what servekit and the plugins need."""
    plugins = {each.distribution.partition(" ")[0] for each in installed_plugins()}
    for name in sorted({*OWN, *plugins}):
        try:
            found = metadata.distribution(name)
        except (metadata.PackageNotFoundError, ValueError):
            continue  # a plugin that is not installed as a package
        yield from _python(name, found.metadata["Requires-Python"] or "")
        for text in found.requires or ():
            if missing := _missing(text):
                yield Diagnosis(
                    severity="error",
                    text=f"{name} needs {missing[0]}: {missing[1]}",
                    meaning="It may fail at any moment, or behave differently.",
                    fix=f"pip install '{missing[0]}'",
                )


def _python(name: str, wanted: str) -> Iterator[Diagnosis]:
    version = platform.python_version()
    try:
        is_fine = SpecifierSet(wanted).contains(version, prereleases=True)
    except InvalidSpecifier:
        return
    if not is_fine:
        yield Diagnosis(
            severity="error",
            text=f"{name} needs Python {wanted}, and this is {version}",
            meaning="It may fail at any moment.",
            fix=f"install Python {wanted}, and {name} in an environment of it",
        )


def _missing(text: str) -> tuple[str, str] | None:
    """Return the requirement and the version that is there instead; ``None`` if it is met."""
    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return None
    if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
        return None
    shown = f"{wanted.name}{wanted.specifier}"
    try:
        version = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return shown, "not installed"
    is_met = wanted.specifier.contains(version, prereleases=True)
    return None if is_met else (shown, f"{version} is installed")


def plugins(setup: Setup) -> Iterator[Diagnosis]:
    """Import every plugin and what it offers."""
    found = [describe(plugin) for plugin in installed_plugins()]
    for plugin in found:
        for problem in filter(None, [plugin["error"], *offer_problems(plugin, found)]):
            package = plugin["distribution"].partition(" ")[0]
            yield Diagnosis(
                severity="error",
                text=f"plugin {plugin['name']}: {problem}",
                meaning="The server runs without it, or refuses the models that need it.",
                fix=_fix(problem, package),
            )
    for name in sorted({*setup.settings.require_plugins} - {each["name"] for each in found}):
        yield Diagnosis(
            severity="error",
            text=f"require_plugins names {name}, which is not installed",
            meaning="The server does not start.",
            fix=f"pip install servekit-{name}",
        )


def _fix(problem: str, package: str) -> str:
    """Return what repairs a plugin of *package*."""
    missing = MISSING.search(problem)
    better = f"pip install {missing[1]}" if missing else f"pip install --upgrade {package}"
    return f"{better}, or pip uninstall {package}"


PACKAGE_CHECKS: Final[Iterable[Check]] = (
    Check("versions", "Python and packages against what servekit and plugins need", versions),
    Check("plugins", "whether plugins can be imported, and offer different things", plugins),
)
