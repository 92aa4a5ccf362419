# SPDX-License-Identifier: Apache-2.0
"""The JSON formats of MLflow that are read here."""

from typing import Any, Final

import msgspec

__all__ = ["NO_PARAMS", "FrameSplit", "InvocationBody"]

NO_PARAMS: Final = b"null"


class FrameSplit(msgspec.Struct, forbid_unknown_fields=True):
    """A data frame as columns, data and index."""

    columns: list[str]
    data: list[list[Any]]
    index: list[Any] | None = None


class InvocationBody(msgspec.Struct, forbid_unknown_fields=True):
    """A request with one of the four formats; other members have a meaning for MLflow."""

    dataframe_split: FrameSplit | None = None
    dataframe_records: list[dict[str, Any]] | None = None
    instances: list[Any] | None = None
    inputs: Any = None
    params: msgspec.Raw = msgspec.Raw(NO_PARAMS)

    @property
    def only(self) -> Any:
        """The value of the only format; ``None`` if there are several."""
        every = (self.dataframe_split, self.dataframe_records, self.instances, self.inputs)
        given = [each for each in every if each is not None]
        return given[0] if len(given) == 1 else None
