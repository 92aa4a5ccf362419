# SPDX-License-Identifier: Apache-2.0
"""Reads ``MLmodel``, the file that makes a directory an MLflow model. Imports nothing of MLflow."""

from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from servekit.errors import BootError
from servekit.extension import read_json

__all__ = ["PYFUNC", "MLmodel", "Spec", "read_mlmodel"]

FILE: Final = "MLmodel"
PYFUNC: Final = "python_function"
#: loaders of models that predict each row by itself, whatever other rows there are
ROW_BY_ROW: Final = frozenset(
    ("mlflow.catboost", "mlflow.lightgbm", "mlflow.onnx", "mlflow.sklearn", "mlflow.xgboost")
)


class TensorSpec(msgspec.Struct):
    """The array of a ``Spec``; the first axis is the batch, with the size -1 if it may vary."""

    dtype: str  #: NumPy's name
    shape: list[int]


class Spec(msgspec.Struct):
    """A column or a tensor of a signature."""

    type: str  #: ``double``, ``string``, ``array`` ... of a column; or ``tensor``
    name: str | None = None
    required: bool = True
    tensor: TensorSpec | None = msgspec.field(name="tensor-spec", default=None)


class SignatureTexts(msgspec.Struct):
    """The inputs and outputs of a model, each a list of ``Spec`` as JSON text."""

    inputs: str | None = None
    outputs: str | None = None


class InputExample(msgspec.Struct):
    """The input that the author of the model logged with it."""

    artifact_path: str = ""  #: a JSON file
    type: str = ""  #: ``dataframe``, ``ndarray``, ``json_object`` ...
    pandas_orient: str = ""  #: how the file holds a data frame


class MLmodel(msgspec.Struct):
    """The parts of the file that this plugin needs."""

    flavors: dict[str, dict[str, Any]]
    signature: SignatureTexts | None = None
    utc_time_created: str = ""  #: ``2026-11-22 20:41:14.123456``
    saved_input_example_info: InputExample | None = None

    @property
    def is_row_by_row(self) -> bool:
        """Whether the flavour predicts each row by itself."""
        return self.flavors[PYFUNC].get("loader_module") in ROW_BY_ROW

    def specs(self, side: str) -> list[Spec]:
        """Return the specifications of *side*, ``inputs`` or ``outputs``; none if unknown.

        :raises BootError: they are not what MLflow writes.
        """
        text = getattr(self.signature, side, None)
        try:
            return read_json(text, list[Spec]) if text else []
        except ValueError as error:
            raise BootError(f"{FILE}: signature: {side}: {error}") from None


def read_mlmodel(directory: Path) -> MLmodel:
    """Return what ``MLmodel`` in *directory* says.

    :raises BootError: it is not YAML, lacks something, or the model cannot be loaded by pyfunc.
    """
    try:
        with (directory / FILE).open(encoding="utf-8") as file:
            model = msgspec.convert(yaml.safe_load(file), MLmodel, strict=False)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = str(error).replace("\n", " ")
        raise BootError(f"{FILE}: {reason}") from None
    if PYFUNC not in model.flavors:
        known = ", ".join(model.flavors) or "none"
        raise BootError(f"{FILE}: flavors: has {known}, and {PYFUNC} is needed")
    return model
