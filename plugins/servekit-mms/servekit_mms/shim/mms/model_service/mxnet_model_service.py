# SPDX-License-Identifier: Apache-2.0
"""``MXNetBaseService`` and ``GluonImperativeBaseService``, without MXNet."""

from servekit_mms.model_service import (
    GluonImperativeBaseService,
    MXNetBaseService,
    SingleNodeService,
    check_input_shape,
)

__all__ = [
    "GluonImperativeBaseService",
    "MXNetBaseService",
    "SingleNodeService",
    "check_input_shape",
]
