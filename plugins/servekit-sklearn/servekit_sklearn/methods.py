# SPDX-License-Identifier: Apache-2.0
"""The methods of an estimator that are called, and the names of their outputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from servekit.errors import BootError
from servekit_sklearn.options import Method

__all__ = ["Answer", "choose_methods", "run_methods"]

#: rows in, output name to array of n rows out
Answer = Callable[[Any], dict[str, np.ndarray]]

OUTPUT_NAMES = {
    "predict": "prediction",
    "predict_proba": "probabilities",
    "transform": "features",
    "decision_function": "decision",
}


def choose_methods(model: Any, method: Method) -> dict[str, str]:
    """Return output name to the method of *model* that gives it.

    ``auto`` gives a classifier's label and, if it has them, its probabilities; else
    what ``predict`` or ``transform`` gives.

    :raises BootError: *model* has no such method.
    """
    wanted = _automatic(model) if method == "auto" else [method]
    lacking = [name for name in wanted if not hasattr(model, name)]
    if lacking:
        raise BootError(f"[options] method: {type(model).__name__} has no {lacking[0]}()")
    names = OUTPUT_NAMES | ({"predict": "label"} if is_classifier(model) else {})
    return {names[name]: name for name in wanted}


def _automatic(model: Any) -> list[str]:
    # the classes of a multi-output classifier are a list; its probabilities are ragged
    is_single = not isinstance(getattr(model, "classes_", None), list)
    if is_classifier(model) and is_single and hasattr(model, "predict_proba"):
        return ["predict", "predict_proba"]
    return (
        ["transform"]
        if hasattr(model, "transform") and not hasattr(model, "predict")
        else ["predict"]
    )


def run_methods(model: Any, methods: dict[str, str]) -> Answer:
    """Return the function that answers a batch of rows with *methods* of *model*."""
    calls = {output: getattr(model, method) for output, method in methods.items()}
    return lambda rows: {output: _dense(call(rows)) for output, call in calls.items()}


def _dense(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
