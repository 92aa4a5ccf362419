# SPDX-License-Identifier: Apache-2.0
"""A model that MLflow has loaded. Runs in: worker; importing it imports MLflow."""

from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

# a server reports to nobody what it serves
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# as in MLflow's own server: types that a model declares by annotations are then checked
os.environ["_MLFLOW_IS_IN_SERVING_ENVIRONMENT"] = "true"

from mlflow.exceptions import MlflowException

from servekit import Response
from servekit_mlflow.estimators import takes_array
from servekit_mlflow.formats import NO_PARAMS
from servekit_mlflow.predictions import Predictions
from servekit_mlflow.pyfunc import mlflow, scoring_server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from logging import Logger
    from pathlib import Path

    from servekit_mlflow.layout import Layout

__all__ = ["JSON", "Scorer"]

JSON: Final = "application/json"
INTERNAL: Final = {"error_code": "INTERNAL_ERROR", "message": "The predictions cannot be written"}


class Scorer:
    """Predicts with one model."""

    def __init__(self, directory: Path, layout: Layout | None, logger: Logger) -> None:
        """Load the model in *directory*. Raises whatever its loader raises.

        :param layout: of its rows, if these can be predicted together.
        """
        self._model = mlflow.pyfunc.load_model(str(directory))
        self._schema = self._model.metadata.get_input_schema()
        self._layout, self._logger = layout, logger
        self._predict = _unchecked_predict(self._model)
        estimator = self._model.get_raw_model() if self._is_loaded_by("mlflow.sklearn") else None
        self._takes_array = (
            self._predict is not None and layout is not None and takes_array(estimator, layout)
        )
        if self._takes_array:
            warnings.filterwarnings("ignore", message="X does not have valid feature names")

    def _is_loaded_by(self, module: str) -> bool:
        return bool(self._model.loader_module == module)

    def predict(self, inputs: Mapping[str, Any], params: bytes) -> Predictions:
        """Predict rows together.

        :param inputs: by name: arrays ``[n, *shape]``, or lists of strings, that fit the signature.
        :param params: the ``params`` of the requests, as JSON.
        Raises whatever the model raises.
        """
        assert self._layout is not None, "the inputs have been declared"
        count = len(next(iter(inputs.values())))
        if self._predict is None or params != NO_PARAMS:
            raw = self._model.predict(_model_input(inputs, self._layout), json.loads(params))
        elif self._takes_array:
            raw = self._predict(np.column_stack(list(inputs.values())))
        else:
            raw = self._predict(_model_input(inputs, self._layout))
        return Predictions(raw, count)

    def respond(self, content_type: str, body: str | bytes) -> Response:
        """Return the response of MLflow's scoring server to a request; errors are responses."""
        try:
            found = scoring_server.invocations(body, content_type, self._model, self._schema)
        except MlflowException as error:
            return self._refusal(error)
        except Exception:
            self._logger.exception("a request failed outside of the model")
            return Response(json.dumps(INTERNAL), 500, content_type=JSON)
        return Response(found.response, found.status, content_type=found.mimetype)

    def _refusal(self, error: MlflowException) -> Response:
        """Return the response for *error*; tracebacks go to the log only."""
        members = json.loads(error.serialize_as_json())
        if trace := members.pop("stack_trace", ""):
            reason = trace.strip().rpartition("\n")[2]
            self._logger.warning("the model refused a request: %s\n%s", reason, trace)
        return Response(json.dumps(members), error.get_http_status_code(), content_type=JSON)


def _unchecked_predict(model: mlflow.pyfunc.PyFuncModel) -> Callable[[Any], Any] | None:
    """Return what predicts with *model* from inputs that fit its signature; ``None`` if unknown.

    ``PyFuncModel.predict`` would check the inputs again, which takes longer than many predictions.
    """
    has_params = model.metadata.get_params_schema() is not None  # they have defaults
    return None if has_params else getattr(model, "_predict_fn", None)


def _model_input(inputs: Mapping[str, Any], layout: Layout) -> Any:
    """Return *inputs* as the model takes them: a data frame, an array or a mapping of arrays."""
    if layout.is_table:
        columns = {name: _column(values) for name, values in inputs.items()}
        return pd.DataFrame(columns, copy=False)
    return next(iter(inputs.values())) if layout.is_bare else dict(inputs)


def _column(values: Any) -> Any:
    """Return *values* as a column; in MLflow, strings are objects."""
    is_text = isinstance(values, list) or values.dtype == object
    return pd.Series(values, dtype=object) if is_text else values
