# SPDX-License-Identifier: Apache-2.0
"""The messages between the supervisor and the child that reads a model store."""

from collections.abc import Iterable

from msgspec import Struct

from servekit.settings.models import ModelSource

__all__ = ["ReadStore", "StoreContent", "StoreRemark", "StoredModel", "newest"]


class ReadStore(Struct, array_like=True):
    """To the child, once: what to read."""

    directory: str
    elsewhere: list[str] = []  #: paths of other models, whose names are wanted too
    is_watched: bool = False  #: tell every change until the channel is closed


class StoredModel(Struct, frozen=True):
    """An archive or model directory of the store."""

    name: str
    version: str
    path: str
    stamp: str  #: changes when a file does
    modified_ns: int  #: Unix time

    @property
    def source(self) -> ModelSource:
        """It, as a configuration would name it."""
        return ModelSource(self.path, self.name)


class StoreRemark(Struct):
    """Something that people should know about one file."""

    path: str
    text: str
    level: str = "warning"


class StoreContent(Struct):
    """From the child: what to serve."""

    models: list[StoredModel]  #: the oldest of each name first
    remarks: list[StoreRemark] = []  #: each is sent once
    taken: list[str] = []  #: the names of the models elsewhere


def newest(models: Iterable[StoredModel], refused: Iterable[StoredModel] = ()) -> list[StoredModel]:
    """Return the newest model of each name that is not *refused*, or the newest if all are.

    :param models: those of one name from old to new; names may differ in case.
    """
    found: dict[str, StoredModel] = {}
    for model in models:
        found[model.name.casefold()] = model
    usable = {model.name.casefold(): model for model in models if model not in refused}
    return [*(found | usable).values()]
