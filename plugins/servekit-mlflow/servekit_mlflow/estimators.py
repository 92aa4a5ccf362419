# SPDX-License-Identifier: Apache-2.0
"""Finds scikit-learn estimators that predict the same from an array as from a data frame.

Most estimators make an array of a data frame first, which takes longer than many predictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servekit_mlflow.layout import Layout

__all__ = ["takes_array"]


def takes_array(estimator: Any, layout: Layout) -> bool:
    """Whether *estimator* can get the columns of *layout*, all of them numbers, as one array.

    It must be scikit-learn's own, have been trained with these columns in this order, and hold
    neither functions nor other estimators, which may look at names. A pipeline of such is one, too.
    """
    names = [tensor["name"] for tensor in layout.inputs]
    is_numeric = all(tensor["dtype"].startswith(("int", "float")) for tensor in layout.inputs)
    trained = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    return layout.is_table and is_numeric and trained == names and _is_plain(estimator)


def _is_plain(estimator: Any) -> bool:
    kind = type(estimator)
    if kind.__module__ == "sklearn.pipeline" and kind.__name__ == "Pipeline":
        return all(step == "passthrough" or _is_plain(step) for _, step in estimator.steps)
    if not kind.__module__.startswith("sklearn.") or not hasattr(estimator, "get_params"):
        return False
    parameters = estimator.get_params()
    is_nested = any("__" in name for name in parameters)
    return not is_nested and not any(map(callable, parameters.values()))
