# SPDX-License-Identifier: Apache-2.0
"""The errors of the management routes, and of the commands.

RequestError
├── RecordingNotFound                404
└── AlreadyRecording                 409
StartupError
└── CannotReplay
"""

from servekit.errors import RequestError, StartupError

__all__ = ["AlreadyRecording", "CannotReplay", "RecordingNotFound"]


class RecordingNotFound(RequestError):
    """No recording has this id, or it was removed."""

    status = 404
    title = "Unknown recording"


class AlreadyRecording(RequestError):
    """One recording at a time."""

    status = 409
    title = "A recording is running"


class CannotReplay(StartupError):
    """The recording or the target of ``servekit replay`` cannot be used."""
