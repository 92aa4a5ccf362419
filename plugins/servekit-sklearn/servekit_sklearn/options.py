# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a ``model.toml`` that names the service ``sklearn``."""

from typing import Literal

import msgspec

__all__ = ["Method", "SklearnOptions"]

Method = Literal["auto", "predict", "predict_proba", "transform", "decision_function"]


class SklearnOptions(msgspec.Struct):
    """Every key with its default."""

    file: str = ""  #: relative to the archive; "" takes the only file that may hold an estimator
    method: Method = "auto"
    trusted: list[str] = []  #: types a .skops file may hold beyond those skops trusts itself
