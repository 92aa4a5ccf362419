# SPDX-License-Identifier: Apache-2.0
"""The rules: each returns why an archive breaks it."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from servekit.errors import PluginError
from servekit.extension import ArchiveInfo, Kept, Refused
from servekit_policy.allow_list import is_allowed, read_allow_list
from servekit_policy.hooks import ALLOWED, VARIABLE
from servekit_policy.pickles.scanning import Finding, scan_directory

__all__ = ["RULES", "judge"]

Rule = Callable[[ArchiveInfo], Refused | None]
MAX_FILES: Final = 3  #: in a message


def judge(names: Sequence[str], archive: ArchiveInfo) -> Refused | Kept | None:
    """Return why *archive* breaks the first of the rules *names* that it breaks."""
    for name in names:
        if refused := RULES[name](archive):
            return refused
    return Kept(tuple(names)) if names else None


def _allowed(archive: ArchiveInfo) -> Refused | None:
    path = os.environ.get(VARIABLE)
    if not path:
        raise PluginError(f"the rule {ALLOWED} needs {VARIABLE}, the file of the allow-list")
    if is_allowed(read_allow_list(Path(path)), archive):
        return None
    what = f"digest {archive.digest}" if archive.digest else "a directory"
    return Refused(f"{archive.name} {archive.version} ({what}) is not in the policy", ALLOWED)


def _no_pickle(archive: ArchiveInfo) -> Refused | None:
    return _at_run_time("no-pickle", archive) or _refusal(
        "no-pickle", list(scan_directory(archive.directory))
    )


def _safe_pickle(archive: ArchiveInfo) -> Refused | None:
    found = scan_directory(archive.directory)
    return _at_run_time("safe-pickle", archive) or _refusal(
        "safe-pickle", [each for each in found if not each.is_harmless]
    )


def _at_run_time(rule: str, archive: ArchiveInfo) -> Refused | None:
    """Refuse models that pickle objects between their stages; nobody can look into these."""
    if not archive.manifest.get("pickle"):
        return None
    return Refused("pickles objects between its stages (pickle in model.toml)", rule)


def _refusal(rule: str, findings: Sequence[Finding]) -> Refused | None:
    if not findings:
        return None
    first, *others = findings
    more = [finding.place for finding in others[:MAX_FILES]]
    text = f"{first}; so do {', '.join(more)}" if more else str(first)
    return Refused(text, rule, first.place)


RULES: Final[Mapping[str, Rule]] = {
    ALLOWED: _allowed,
    "no-pickle": _no_pickle,
    "safe-pickle": _safe_pickle,
}
