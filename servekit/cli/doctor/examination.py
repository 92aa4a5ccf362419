# SPDX-License-Identifier: Apache-2.0
"""Runs the checks, and shows what they find."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct

from servekit.cli.doctor.addresses import ADDRESS_CHECKS
from servekit.cli.doctor.configuration import CONFIGURATION_CHECKS
from servekit.cli.doctor.files import FILE_CHECKS
from servekit.cli.doctor.gpus import GPU_CHECKS
from servekit.cli.doctor.live import LIVE_CHECKS, LiveCheck
from servekit.cli.doctor.live_server import LiveServer
from servekit.cli.doctor.machine import MACHINE_CHECKS
from servekit.cli.doctor.packages import PACKAGE_CHECKS
from servekit.cli.doctor.setup import Setup
from servekit.cli.server.connection import NoServer
from servekit.counting import counted
from servekit.extension.checks import Diagnosis
from servekit.plugins import create_plugin_manager
from servekit.settings import Settings

__all__ = [
    "Examined",
    "PlannedCheck",
    "as_text",
    "check_plugins",
    "check_server",
    "check_setup",
    "exit_status",
]

CHECKS: Final = (
    *MACHINE_CHECKS,
    *ADDRESS_CHECKS,
    *PACKAGE_CHECKS,
    *GPU_CHECKS,
    *FILE_CHECKS,
    *CONFIGURATION_CHECKS,
)
SEVERITIES: Final = ("info", "warning", "error")
INDENT: Final = " " * 9


class Examined(Struct):
    """One check and what it found."""

    check: str
    summary: str
    findings: list[Diagnosis]


class PlannedCheck(NamedTuple):
    """One check that can be made."""

    name: str
    summary: str
    find: Callable[[], Iterable[Diagnosis]]

    def examine(self) -> Examined:
        """Make the check; that it fails is a finding, too."""
        try:
            return Examined(self.name, self.summary, list(self.find()))
        except Exception as error:  # noqa: BLE001 - a machine may be odd in any way
            text = f"the check cannot be made: {type(error).__name__}: {error}"
            return Examined(self.name, self.summary, [Diagnosis(severity="warning", text=text)])


def check_setup(setup: Setup) -> Iterator[PlannedCheck]:
    """Yield each check of the machine and the settings."""
    for check in CHECKS:
        yield PlannedCheck(check.name, check.summary, partial(check.find, setup))


def check_plugins(setup: Setup) -> Iterator[PlannedCheck]:
    """Yield the checks of each plugin that has some."""
    manager = create_plugin_manager()
    for plugin in sorted(each.plugin_name for each in manager.hook.check_setup.get_hookimpls()):
        others = [each for name, each in manager.list_name_plugin() if name != plugin]
        alone = manager.subset_hook_caller("check_setup", others)
        find = partial(_from_plugin, alone, setup.settings)
        yield PlannedCheck(f"plugin {plugin}", "what the plugin checks", find)


def _from_plugin(
    alone: Callable[..., list[Iterable[Diagnosis]]], settings: Settings
) -> list[Diagnosis]:
    return [finding for found in alone(settings=settings) for finding in found]


def check_server(live: LiveServer) -> Iterator[PlannedCheck]:
    """Yield each check of a running server, until it does not answer any more."""
    for check in LIVE_CHECKS:
        yield PlannedCheck(check.name, check.summary, partial(_of_server, check, live))
        if live.is_gone:
            return


def _of_server(check: LiveCheck, live: LiveServer) -> list[Diagnosis]:
    try:
        return list(check.find(live))
    except NoServer as error:
        live.is_gone = True
        meaning = "It answered a moment ago. What is left of its checks is not made."
        fix = live.command("status")
        return [Diagnosis(severity="error", text=str(error), meaning=meaning, fix=fix)]


def exit_status(examined: Iterable[Examined]) -> int:
    """Return 2 if there is an error, 1 if there is a warning, and 0 otherwise."""
    found = [SEVERITIES.index(each.severity) for row in examined for each in row.findings]
    return max(found, default=0)


def as_text(examined: list[Examined], *, is_verbose: bool) -> str:
    """Return the findings, the most severe first, and how many there are."""
    found = [(finding, row) for row in examined for finding in row.findings]
    found.sort(key=lambda each: -SEVERITIES.index(each[0].severity))
    lines = [line for finding, row in found for line in _lines(finding, row)]
    if is_verbose:
        lines += [f"ok       {row.check}: {row.summary}" for row in examined if not row.findings]
    counts = [
        counted(sum(finding.severity == severity for finding, _ in found), noun)
        for severity, noun in (("error", "error"), ("warning", "warning"), ("info", "remark"))
    ]
    return "\n".join([*lines, f"{counted(len(examined), 'check')}: {', '.join(counts)}"])


def _lines(finding: Diagnosis, row: Examined) -> Iterator[str]:
    yield f"{finding.severity:<8} {row.check}: {finding.text}"
    if finding.meaning:
        yield f"{INDENT}{finding.meaning}"
    if finding.fix:
        yield f"{INDENT}fix: {finding.fix}"
