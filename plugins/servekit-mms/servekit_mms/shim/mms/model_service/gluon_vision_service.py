# SPDX-License-Identifier: Apache-2.0
"""``GluonVisionService``, without MXNet."""

from servekit_mms.model_service import GluonImperativeBaseService, GluonVisionService

__all__ = ["GluonImperativeBaseService", "GluonVisionService"]
