# SPDX-License-Identifier: Apache-2.0
"""What comes with servekit, offered through the same hooks as what plugins offer."""

__all__ = ["DEFAULT_PLUGINS"]

#: the hook modules; their names are the names of these plugins
DEFAULT_PLUGINS = (
    "servekit.builtin.codecs",
    "servekit.builtin.commands",
    "servekit.builtin.fetchers",
    "servekit.builtin.services",
)
