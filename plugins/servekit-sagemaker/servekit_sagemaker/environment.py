# SPDX-License-Identifier: Apache-2.0
"""The variables of a container of SageMaker, and the settings that they become."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MODEL", "SageMakerEnvironment", "settings_of"]

MODEL: Final = "SERVEKIT_PLUGIN_SAGEMAKER_MODEL"  #: the setting ``model`` of this plugin

#: SageMaker's variables to ours
VARIABLES: Final = {
    "SAGEMAKER_BIND_TO_PORT": "SERVEKIT_PORT",
    "SAGEMAKER_MAX_REQUEST_SIZE": "SERVEKIT_MAX_BODY",
    "SAGEMAKER_MODEL_SERVER_TIMEOUT": "SERVEKIT_PREDICT_TIMEOUT",
    "SAGEMAKER_MODEL_SERVER_WORKERS": "SERVEKIT_REPLICAS",
    "SAGEMAKER_STARTUP_TIMEOUT": "SERVEKIT_LOAD_TIMEOUT",
}
DEFAULTS: Final = {
    "SERVEKIT_PLUGIN_SAGEMAKER_ENABLED": "true",
    "SERVEKIT_HOST": "0.0.0.0",  # noqa: S104 - SageMaker connects from outside of the container
    "SERVEKIT_PORT": "8080",
    "SERVEKIT_MAX_BODY": "100MiB",  # the largest that a batch transform sends
    "SERVEKIT_GRACE": "20",  # SIGKILL comes 30 s after SIGTERM, and workers leave after the grace
}
#: levels of Python's logging, as SAGEMAKER_CONTAINER_LOG_LEVEL has them
LEVELS: Final = {"10": "debug", "20": "info", "30": "warning", "40": "error", "50": "error"}
TRUE: Final = ("true", "1")


@dataclass(frozen=True, slots=True)
class SageMakerEnvironment:
    """The part of the environment that decides what is served, and at which paths."""

    base: Path  #: ``/opt/ml``
    is_multi_model: bool  #: models come and go by requests

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> SageMakerEnvironment:
        """Read the variables of *environment*."""
        return cls(
            base=Path(environment.get("SAGEMAKER_BASE_DIR") or "/opt/ml"),
            is_multi_model=environment.get("SAGEMAKER_MULTI_MODEL", "").lower() in TRUE,
        )


def settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the server, as variables: those in *environment* win."""
    found = DEFAULTS | {
        ours: environment[theirs] for theirs, ours in VARIABLES.items() if environment.get(theirs)
    }
    if (megabytes := environment.get("SAGEMAKER_MAX_PAYLOAD_IN_MB") or "0") != "0":
        found["SERVEKIT_MAX_BODY"] = f"{megabytes}MiB"
    if level := LEVELS.get(environment.get("SAGEMAKER_CONTAINER_LOG_LEVEL", "")):
        found["SERVEKIT_LOG_LEVEL"] = level
    if environment.get("SERVEKIT_BIND"):
        del found["SERVEKIT_HOST"], found["SERVEKIT_PORT"]
    given = {name for name in environment if environment[name]}
    return {name: value for name, value in found.items() if name not in given}
