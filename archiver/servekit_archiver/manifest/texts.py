# SPDX-License-Identifier: Apache-2.0
"""The strings of a manifest that have special rules: names, paths, the service."""

from typing import Final

from servekit_archiver.manifest.kinds import Text
from servekit_archiver.manifest.references import PLUGIN_SERVICE, SERVICE
from servekit_archiver.names import RESERVED, is_reserved, name_problem

__all__ = ["MODEL_NAME", "PATH", "RESERVED_NAMES", "SERVICE_NAME", "VERSION"]

#: names that a model may not have: first parts of paths that the server or a plugin owns
RESERVED_NAMES: Final = frozenset(
    [
        "admin",
        "api-description",
        "docs",
        "favicon.ico",
        "health",
        "healthz",
        "invocations",
        "livez",
        "management",
        "metrics",
        "models",
        "openapi.json",
        "ping",
        "predictions",
        "readyz",
        "robots.txt",
        "static",
        "v1",
        "v2",
    ]
)

NAME: Final = r"[A-Za-z0-9](?:\.?[A-Za-z0-9_-])*\.?"
NAME_IN_WORDS: Final = (
    "made of letters, digits and . _ - alone, beginning with a letter or digit, without '..'"
)


def _name_problem(name: str) -> str | None:
    return "is reserved for the server" if name.casefold() in RESERVED_NAMES else None


def _file_problem(name: str) -> str | None:
    return name_problem(name) or (
        f"is in {RESERVED}, which is reserved" if is_reserved(name) else None
    )


def _service_problem(service: str) -> str | None:
    if SERVICE.fullmatch(service) or PLUGIN_SERVICE.fullmatch(service):
        return None
    return "is not module:Class (a file of the model) or the name of a plugin's service"


MODEL_NAME: Final = Text(max_length=64, pattern=NAME, says=NAME_IN_WORDS, problem=_name_problem)
VERSION: Final = Text(max_length=64, pattern=NAME, says=NAME_IN_WORDS)
SERVICE_NAME: Final = Text(max_length=256, problem=_service_problem)
PATH: Final = Text(max_length=1024, min_length=1, problem=_file_problem)
