# SPDX-License-Identifier: Apache-2.0
"""Errors as TorchServe's clients read them: a code, the name of a class, and a message."""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AlreadyRegistered",
    "CallFailed",
    "DefaultVersionStays",
    "InvalidKey",
    "ManagementError",
    "ModelApiOff",
    "ModelInvalid",
    "NoMemoryLeft",
    "ServerSilent",
    "UnknownModel",
    "UnknownVersion",
    "WrongParameter",
]


class ManagementError(Exception):
    """A call is refused, or has failed."""

    code: ClassVar[int] = 500
    kind: ClassVar[str] = "InternalServerException"  #: ``type`` of the response

    def as_response(self) -> dict[str, object]:
        """Return the members of the JSON."""
        return {"code": self.code, "type": self.kind, "message": str(self)}


class CallFailed(ManagementError):
    """Something failed that should not have."""


class WrongParameter(ManagementError):
    """A parameter is missing or wrong."""

    code, kind = 400, "BadRequestException"


class InvalidKey(ManagementError):
    """The token is missing, or it is another one."""

    code, kind = 400, "InvalidKeyException"


class ModelInvalid(ManagementError):
    """The archive cannot be served."""

    code, kind = 400, "InvalidModelException"


class DefaultVersionStays(ManagementError):
    """The default version cannot go while there are others."""

    code, kind = 403, "InvalidModelVersionException"


class UnknownModel(ManagementError):
    """There is no such model, or no such archive."""

    code, kind = 404, "ModelNotFoundException"


class UnknownVersion(ManagementError):
    """The model has no such version."""

    code, kind = 404, "ModelVersionNotFoundException"


class ModelApiOff(ManagementError):
    """The operator has not enabled this call."""

    code, kind = 405, "MethodNotAllowedException"


class AlreadyRegistered(ManagementError):
    """The version is registered already, or something else is being done to the model."""

    code, kind = 409, "ConflictStatusException"


class ServerSilent(ManagementError):
    """The server starts or stops."""

    code, kind = 503, "ServiceUnavailableException"


class NoMemoryLeft(ManagementError):
    """There is no memory for it."""

    code, kind = 507, "OutOfMemoryException"
