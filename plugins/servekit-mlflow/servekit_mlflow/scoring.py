# SPDX-License-Identifier: Apache-2.0
"""A model that MLflow has loaded. Runs in: worker; importing it imports MLflow."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

os.environ.setdefault(
    "MLFLOW_DISABLE_TELEMETRY", "true"
)  # a server reports to nobody what it serves
# as in MLflow's own server: types that a model declares by annotations are then checked
os.environ["_MLFLOW_IS_IN_SERVING_ENVIRONMENT"] = "true"

import mlflow.pyfunc
from mlflow.exceptions import MlflowException
from mlflow.pyfunc import scoring_server

from servekit import Response
from servekit_mlflow.formats import NO_PARAMS
from servekit_mlflow.predictions import Predictions

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

    def __init__(self, directory: Path, logger: Logger) -> None:
        """Load the model in *directory*. Raises whatever its loader raises."""
        self._model = mlflow.pyfunc.load_model(str(directory))
        self._schema = self._model.metadata.get_input_schema()
        self._predict = _checked_predict(self._model)
        self._logger = logger

    def predict(self, inputs: Mapping[str, Any], layout: Layout, params: bytes) -> Predictions:
        """Predict rows together.

        :param inputs: by name: arrays ``[n, *shape]``, or lists of strings.
        :param params: the ``params`` of the requests, as JSON.
        Raises whatever the model raises.
        """
        count = len(next(iter(inputs.values())))
        given = _model_input(inputs, layout)
        has_params = params != NO_PARAMS
        raw = self._model.predict(given, json.loads(params)) if has_params else self._predict(given)
        return Predictions(raw, count)

    def respond(self, content_type: str, body: str) -> Response:
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


def _checked_predict(model: mlflow.pyfunc.PyFuncModel) -> Callable[[Any], Any]:
    """Return what predicts with *model* from inputs that fit its signature, without parameters.

    ``PyFuncModel.predict`` would check the inputs again, which takes longer than many models.
    """
    has_params = model.metadata.get_params_schema() is not None
    predict = None if has_params else getattr(model, "_predict_fn", None)
    found: Callable[[Any], Any] = predict or model.predict
    return found


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
