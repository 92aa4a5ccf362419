# SPDX-License-Identifier: Apache-2.0
"""The default plugins: features of servekit, offered through the same hooks as any plugin's."""

__all__ = ["DEFAULT_PLUGINS"]

#: the hook modules; their names are the names of these plugins
DEFAULT_PLUGINS = (
    "servekit.builtin.codecs",
    "servekit.builtin.commands",
    "servekit.builtin.fetchers",
    "servekit.builtin.services",
)
