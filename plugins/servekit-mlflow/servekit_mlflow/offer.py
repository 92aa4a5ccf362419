# SPDX-License-Identifier: Apache-2.0
"""Describes an MLflow model as a ``model.toml`` would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from servekit_archiver import file_in

from servekit.extension import read_json
from servekit_mlflow.formats import FrameSplit
from servekit_mlflow.layout import layout_of
from servekit_mlflow.mlmodel import read_mlmodel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from servekit_mlflow.mlmodel import MLmodel

__all__ = ["REQUIREMENTS", "describe_model"]

REQUIREMENTS: Final = "requirements.txt"
TIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")
MAX_EXAMPLE: Final = 1 << 20  #: bytes of an input example
#: the Python types of the JSON of a column
KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int32": (int,),
    "int64": (int,),
    "float32": (int, float),
    "float64": (int, float),
    "str": (str,),
}


def describe_model(directory: Path) -> dict[str, Any]:
    """Return the keys of a manifest for the MLflow model in *directory*.

    :raises BootError: its ``MLmodel`` is not one that can be served.
    """
    model = read_mlmodel(directory)
    offer: dict[str, Any] = {"service": "mlflow"}
    if found := TIME.match(model.utc_time_created):
        offer["version"] = "{}{}{}-{}{}{}".format(*found.groups())
    if (directory / REQUIREMENTS).is_file():
        offer["requirements"] = REQUIREMENTS
    if not model.is_row_by_row or layout_of(model) is None:
        offer["batching"] = {"max_batch_size": 1}  # the others would wait for their turn
    if (row := _first_row(directory, model)) is not None:
        offer["examples"] = [{"input": row}]
    return offer


def _first_row(directory: Path, model: MLmodel) -> dict[str, Any] | None:
    """Return the first row of the input example, if all its values fit the columns of *model*."""
    layout, example = layout_of(model), model.saved_input_example_info
    if layout is None or layout.signature is None or not layout.is_table or example is None:
        return None
    if example.pandas_orient != "split":
        return None
    path = file_in(directory, example.artifact_path, "saved_input_example_info: artifact_path")
    if not path.is_file() or path.stat().st_size > MAX_EXAMPLE:
        return None
    try:
        split = read_json(path.read_bytes(), FrameSplit)
    except msgspec.DecodeError:
        return None
    row = dict(zip(split.columns, split.data[0], strict=False)) if split.data else {}
    wanted = {tensor["name"]: KINDS[tensor["dtype"]] for tensor in layout.inputs}
    fits = row.keys() == wanted.keys() and all(type(row[name]) in wanted[name] for name in wanted)
    return row if fits else None
