# SPDX-License-Identifier: Apache-2.0
"""What plugins work with; the hooks are in ``hookspecs``."""

from servekit.extension.commands import Command

__all__ = ["Command"]
