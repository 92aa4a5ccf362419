# SPDX-License-Identifier: Apache-2.0
"""The hook of this plugin. It exists, and costs something, only if a file of keys is named."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.errors import Forbidden, TooManyRequests, Unauthorized
    from servekit.extension import Identity
    from servekit.hookspecs import PredictionRequest
    from servekit_apikeys.keyring import Keyring

__all__ = ["VARIABLE"]

VARIABLE = "APIKEYS_FILE"

if os.environ.get(VARIABLE):

    @hookimpl
    def authorize(
        request: PredictionRequest,
    ) -> Identity | Unauthorized | Forbidden | TooManyRequests:
        """Refuse whom the file does not know, or not for this model, or not so often."""
        key = request.headers.get("authorization")
        return _keyring().judge(key, request.model, is_counted=request.is_prediction)


@cache
def _keyring() -> Keyring:
    """Read the file, once in each front-end process: a SIGHUP starts new ones."""
    from servekit_apikeys.keyring import Keyring, read_keys

    return Keyring(read_keys(Path(os.environ[VARIABLE])))
