# SPDX-License-Identifier: Apache-2.0
"""The hook of this plugin. If no policy is named there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import ArchiveInfo, Refused

__all__ = ["VARIABLE"]

VARIABLE = "POLICY_FILE"

if os.environ.get(VARIABLE):

    @hookimpl
    def accept_archive(archive: ArchiveInfo) -> Refused | None:
        """Refuse what the policy does not allow."""
        from servekit_policy.policy import judge, read_policy

        return judge(read_policy(Path(os.environ[VARIABLE])), archive)
