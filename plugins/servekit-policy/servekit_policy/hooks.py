# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin: its rules, and ``--scan`` of ``servekit-archive verify``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from servekit_archiver.commands import Check

    from servekit.extension import ArchiveInfo, Kept, Policy, Refused

__all__ = ["ALLOWED", "VARIABLE", "accept_archive", "extend_verify"]

VARIABLE = "POLICY_FILE"
ALLOWED = "allowed"  #: on, too, wherever the variable is set


@hookimpl
def accept_archive(archive: ArchiveInfo, policy: Policy) -> Refused | Kept | None:
    """Refuse what breaks a rule of this plugin."""
    allowed = {ALLOWED} if os.environ.get(VARIABLE) else set()
    if not allowed and not policy.rules:
        return None
    from servekit_policy.rules import RULES, judge

    return judge([rule for rule in RULES if rule in allowed.union(policy.rules)], archive)


@hookimpl
def extend_verify(parser: ArgumentParser) -> Check:
    """Add ``--scan``, which lists pickles."""
    from servekit_policy.scan_option import extend

    return extend(parser)
