# SPDX-License-Identifier: Apache-2.0
"""Writes the predictions for several rows, whole or in parts, as MLflow writes them."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from servekit_mlflow.pyfunc import scoring_server

__all__ = ["Predictions"]

NUMBERS: Final = "biuf"


class Predictions:
    """One prediction for each row."""

    def __init__(self, raw: Any, count: int) -> None:
        """Take what the model returned for *count* rows.

        :raises ValueError: it does not have as many.
        """
        self._raw, self._count = raw, count
        self._numbers = _numbers(raw)  #: in place of *raw*
        columns = list(raw.values()) if isinstance(raw, dict) else [raw]
        if not columns or any(_length(each) != count for each in columns):
            raise ValueError(f"the model returned a {type(raw).__name__} without {count} rows")

    def json(self, start: int, stop: int) -> bytes:
        """Return the response with the rows from *start* to *stop*."""
        if self._numbers is not None:
            return msgspec.json.encode({"predictions": self._numbers[start:stop]})
        text = StringIO()
        scoring_server.predictions_to_json(self._part(start, stop), text)
        return text.getvalue().encode()

    def _part(self, start: int, stop: int) -> Any:
        raw = self._raw
        if isinstance(raw, dict):
            return {name: column[start:stop] for name, column in raw.items()}
        return (
            raw.iloc[start:stop] if isinstance(raw, pd.DataFrame | pd.Series) else raw[start:stop]
        )

    def rows(self) -> list[Any]:
        """Return the prediction of each row, as JSON can hold it."""
        if self._numbers is not None:
            return self._numbers
        found = json.loads(self.json(0, self._count))["predictions"]
        if isinstance(found, list):
            return found
        return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


def _numbers(raw: Any) -> list[Any] | None:
    """Return an array of finite numbers as lists; ``None`` for anything else."""
    if not isinstance(raw, np.ndarray) or not raw.ndim or raw.dtype.kind not in NUMBERS:
        return None
    if raw.dtype.kind == "f" and not np.isfinite(raw).all():
        return None
    numbers: list[Any] = raw.tolist()
    return numbers


def _length(column: Any) -> int:
    is_scalar = isinstance(column, str | bytes) or getattr(column, "shape", None) == ()
    return -1 if is_scalar or not hasattr(column, "__len__") else len(column)
