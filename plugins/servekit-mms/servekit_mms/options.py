# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a ``model.toml`` that names the service ``mms``."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["MMSOptions"]


class MMSOptions(Struct):
    """Every key with its default."""

    gpu: int | None = None  #: passed to the service class, or to the handler as ``gpu_id``
    #: path of a service file in place of the one in an archive of 0.x, ``service.py`` or, if it has
    #: several classes, ``service.py:Class``
    service: str = ""
