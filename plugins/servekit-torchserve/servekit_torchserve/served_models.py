# SPDX-License-Identifier: Apache-2.0
"""The models of a server that were archived for TorchServe. Runs in: front-end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from servekit_torchserve.archive import is_archive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.extension import ModelView, Server

__all__ = ["ServedModels", "may_be_own"]

TASK: Final = "torchserve"


class ServedModels:
    """Tells which models of a server come from archives of TorchServe, loaded or not."""

    def __init__(self, server: Server) -> None:
        """Look at the models of *server*."""
        self._server = server
        self._seen: Mapping[str, ModelView] | None = None
        self._own: dict[str, ModelView] = {}

    def own(self) -> Mapping[str, ModelView]:
        """Return the models that were archived for TorchServe, by name."""
        models = self._server.models
        if models is not self._seen:
            own = {name: view for name, view in models.items() if _is_own(view)}
            self._seen, self._own = models, own
        return self._own

    def are_all(self) -> bool:
        """Whether the server has no other models, so that it describes itself as TorchServe does.

        With TorchServe's address for management it may also be empty, and a model whose archive has
        not been unpacked yet counts as one of its archives.
        """
        own = self.own()
        others = [view for name, view in self._server.models.items() if name not in own]
        if self._server.plugin_settings("torchserve").management:
            return all(may_be_own(view) for view in others)
        return bool(own) and not others


def _is_own(view: ModelView) -> bool:
    """Whether the archive of *view* is one of TorchServe, also before its first worker is ready."""
    if view.interface is not None:
        return view.interface.task == TASK
    return view.directory is not None and is_archive(view.directory)


def may_be_own(view: ModelView) -> bool:
    """Whether nothing is known of *view* yet."""
    return view.interface is None and view.directory is None
