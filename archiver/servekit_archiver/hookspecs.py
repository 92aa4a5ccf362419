# SPDX-License-Identifier: Apache-2.0
"""The hook that lets a plugin recognise a directory which says little or nothing itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pluggy

__all__ = ["hookimpl", "hookspec", "recognise_model"]

hookspec = pluggy.HookspecMarker("servekit")
hookimpl = pluggy.HookimplMarker("servekit")


@hookspec
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Offer the ``model.toml`` keys of a directory that has no ``model.toml``, or no ``service``.

    Runs in: the archiver, when it builds; the server, when it starts a directory. Must not
    import or unpickle anything of *directory*, nor write into it.

    :return: keys such as ``{"service": "onnx", "signature": {...}}``, or ``None`` if this is
        no model the plugin knows. They fill only what ``model.toml`` leaves out. Two plugins
        that recognise one directory is an ``ArchiveError``; the order of plugins never decides.
    """
