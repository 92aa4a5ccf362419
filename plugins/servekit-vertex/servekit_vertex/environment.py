# SPDX-License-Identifier: Apache-2.0
"""The variables of a container of Vertex AI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULTS", "MODEL", "VertexEnvironment"]

MODEL: Final = "SERVEKIT_PLUGIN_VERTEX_MODEL"  #: the setting ``model`` of this plugin
#: of ``servekit vertex``; Vertex always sets these variables
DEFAULTS: Final = {
    "AIP_HTTP_PORT": "8080",
    "AIP_HEALTH_ROUTE": "/health",
    "AIP_PREDICT_ROUTE": "/predict",
}


@dataclass(frozen=True, slots=True)
class VertexEnvironment:
    """The paths at which a model answers."""

    health_route: str
    predict_route: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> VertexEnvironment | None:
        """Read the variables of *environment*; ``None`` if it is not one of Vertex."""
        health = environment.get("AIP_HEALTH_ROUTE", "")
        predict = environment.get("AIP_PREDICT_ROUTE", "")
        if not health or not predict:
            return None
        return cls(health, predict)
