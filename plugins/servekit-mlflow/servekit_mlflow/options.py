# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a ``model.toml`` that names the service ``mlflow``."""

import msgspec

__all__ = ["MLflowOptions"]


class MLflowOptions(msgspec.Struct):
    """Every key with its default."""

    #: whether rows of several requests are predicted together; by default, if the flavour predicts
    #: each row by itself
    join: bool | None = None
