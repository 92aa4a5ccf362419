# SPDX-License-Identifier: Apache-2.0
"""``ModelService`` and ``SingleNodeService``."""

from servekit_mms.model_service import ModelService, MultiNodesService, SingleNodeService

__all__ = ["URL_PREFIX", "ModelService", "MultiNodesService", "SingleNodeService"]

URL_PREFIX = ("http://", "https://", "s3://")
