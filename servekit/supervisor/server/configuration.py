# SPDX-License-Identifier: Apache-2.0
"""The settings of a running server, which a reload reads again."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from servekit.errors import StartupError
from servekit.settings import Settings
from servekit.settings.models import ModelSource, model_sources
from servekit.supervisor.reporting.journal import Notice

__all__ = ["Configuration", "Read"]

Read = Callable[[], Settings]  #: reads the flags, the variables and the file again

OF_MODELS: Final = ("models", "replicas", "deployments")  #: settings that a reload applies


class Configuration:
    """The settings of the server, and those of its models as they are written now."""

    def __init__(
        self,
        settings: Settings,
        read: Read | None,
        notice: Callable[[Notice], object],
    ) -> None:
        """Begin with *settings*.

        :param read: raises ``StartupError``; ``None`` if the settings never change.
        :param notice: shows a line to the operator.
        """
        self._read = read or (lambda: settings)
        self._notice = notice
        self.settings = settings

    def renew(self, loaded: Sequence[str] = ()) -> Sequence[ModelSource] | None:
        """Read the settings again and take those of models; ``None`` if any of them is refused.

        Blocks while it reads the file and looks for each path.

        :param loaded: the names of models that were loaded at run time.
        """
        try:
            found = self._read()
            sources = model_sources(found, loaded, may_be_none=bool(self.settings.state_file))
        except StartupError as error:
            refused = f"keeps its settings: {error}"
            self._notice(Notice("settings_refused", "servekit", refused, "error"))
            return None
        kept = {name: getattr(found, name) for name in OF_MODELS}
        self.settings = dataclasses.replace(self.settings, **kept)
        if ignored := _differences(self.settings, found):
            text = f"needs a restart to change {ignored}"
            self._notice(Notice("settings_ignored", "servekit", text, "warning"))
        return sources


def _differences(one: Settings, other: Settings) -> str:
    names = (field.name for field in dataclasses.fields(Settings))
    return ", ".join(name for name in names if getattr(one, name) != getattr(other, name))
