# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a ``model.toml`` that names the service ``trees``."""

import msgspec

__all__ = ["TreesOptions"]


class TreesOptions(msgspec.Struct):
    """Every key with its default."""

    file: str = ""  #: relative to the archive; "" takes the only model of the directory
    labels: list[str] = []  #: of the classes, in their order; [] answers with their numbers
    raw: bool = False  #: whether to answer with the sums of the leaves, before the objective
