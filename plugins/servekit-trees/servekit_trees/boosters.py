# SPDX-License-Identifier: Apache-2.0
"""One interface to the models of both libraries."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from servekit.errors import BootError
from servekit_trees.hooks import library_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Booster", "open_booster"]

REASON_CHARS: Final = 200  #: characters of a library's message
XGBOOST_CLASSES: Final = ("binary:logistic", "multi:softprob", "multi:softmax")
LIGHTGBM_CLASSES: Final = ("binary", "multiclass", "multiclassova")


@dataclass(frozen=True, slots=True)
class Booster:
    """A model that has been loaded."""

    names: list[str]  #: the names of the columns that it was trained with; [] if they had none
    features: int
    #: the number of classes; 0 if it does not classify. Two classes have one score, of the second
    classes: int
    dtype: str
    #: rows ``[n, features]`` to scores: ``[n]`` or ``[n, k]``. Scores of classes are probabilities
    predict: Callable[[Any], Any]


def open_booster(path: Path, *, threads: int, is_raw: bool) -> Booster:
    """Return the model in *path*, which predicts with *threads* threads.

    :param is_raw: it predicts the sums of the leaves.
    :raises BootError: its library is not installed, or cannot read it.
    """
    library = library_of(path)
    openers = {"xgboost": _open_xgboost, "lightgbm": _open_lightgbm}
    if library not in openers:
        raise BootError(f"{path.name}: not a model of XGBoost (JSON, UBJSON) or LightGBM (text)")
    try:
        return openers[library](path, threads, is_raw)
    except BootError:
        raise
    except ImportError:
        hint = "xgboost-cpu (or xgboost)" if library == "xgboost" else library
        raise BootError(f"{path.name} needs {library}: pip install {hint}") from None
    except Exception as error:  # noqa: BLE001 - each library has its own errors
        reason = " ".join(str(error).split())[:REASON_CHARS]
        raise BootError(f"{path.name}: {library} cannot read it ({reason})") from None


def _open_xgboost(path: Path, threads: int, is_raw: bool) -> Booster:
    import xgboost

    model = xgboost.Booster(model_file=str(path))
    model.set_param({"nthread": threads})
    learner = json.loads(model.save_config())["learner"]
    objective = learner["objective"]["name"]
    # softmax gives a class; its margins give probabilities, as those of softprob
    kind = "margin" if is_raw or objective == "multi:softmax" else "value"
    best = model.attr("best_iteration")  # early stopping sets it; the trees after it are worse
    trees = (0, int(best) + 1) if best is not None else (0, 0)

    def predict(rows: Any) -> Any:
        scores = model.inplace_predict(rows, iteration_range=trees, predict_type=kind)
        return _softmax(scores) if objective == "multi:softmax" and not is_raw else scores

    classes = int(learner["learner_model_param"]["num_class"] or 0) or 2
    return Booster(
        names=[*(model.feature_names or ())],
        features=model.num_features(),
        classes=classes if objective in XGBOOST_CLASSES else 0,
        dtype="float32",
        predict=predict,
    )


def _softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _open_lightgbm(path: Path, threads: int, is_raw: bool) -> Booster:
    import lightgbm

    if b"\nend of trees" not in path.read_bytes():  # it would read beyond the end
        raise BootError(f"{path.name}: the end of the file is missing")
    model = lightgbm.Booster(model_file=str(path))
    if model.pandas_categorical:
        reason = "was trained with categories of pandas; train it with their numbers instead"
        raise BootError(f"{path.name}: {reason}")
    names, count = model.feature_name(), model.num_feature()
    are_made_up = names == [f"Column_{place}" for place in range(count)]
    objective = str(model.params.get("objective", ""))
    return Booster(
        names=[] if are_made_up else names,
        features=count,
        classes=max(model.params.get("num_class", 1), 2) if objective in LIGHTGBM_CLASSES else 0,
        dtype="float64",
        predict=lambda rows: model.predict(rows, num_threads=threads, raw_score=is_raw),
    )
