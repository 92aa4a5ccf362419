# SPDX-License-Identifier: Apache-2.0
"""Checks the users and the standard output before anything is started."""

import os

from servekit.errors import StartupError
from servekit.settings import Settings
from servekit.settings.values import STDOUT
from servekit.supervisor.os.user import find_user, user_of_model

__all__ = ["check_users", "standard_output"]


def check_users(settings: Settings, models: int) -> None:
    """Check that there is a user for the workers of each model.

    :raises StartupError: a user does not exist.
    """
    for number in range(models):
        find_user(user_of_model(settings.worker_user, number, models))


def standard_output(settings: Settings) -> int | None:
    """Return a descriptor for the access log, if it goes to our standard output.

    :raises StartupError: that is closed.
    """
    if settings.access_log != STDOUT:
        return None
    try:
        return os.dup(1)
    except OSError as error:
        raise StartupError("access_log: the standard output is closed") from error
