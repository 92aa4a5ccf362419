# SPDX-License-Identifier: Apache-2.0
"""``MXNetVisionService``, without MXNet."""

from servekit_mms.model_service import MXNetBaseService, MXNetVisionService

__all__ = ["MXNetBaseService", "MXNetVisionService"]
