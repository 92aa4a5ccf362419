# SPDX-License-Identifier: Apache-2.0
"""The hook of this plugin: the rules ``allowed``, ``no-pickle`` and ``safe-pickle``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import ArchiveInfo, Kept, Policy, Refused

__all__ = ["VARIABLE", "accept_archive"]

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
