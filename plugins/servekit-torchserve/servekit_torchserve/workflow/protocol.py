# SPDX-License-Identifier: Apache-2.0
"""The path of workflows, whose predictions are native ones of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit.errors import MethodNotAllowed, ModelNotFound
from servekit.extension import PredictionCall
from servekit_torchserve.protocol import TorchServeProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.errors import ServekitError
    from servekit.extension import RequestHead

__all__ = ["WorkflowProtocol"]


class WorkflowProtocol(TorchServeProtocol):
    """``POST /wfpredict/NAME``."""

    paths = ("/wfpredict/",)
    is_selective = False

    def find(self, head: RequestHead) -> PredictionCall | ServekitError:
        """Return the prediction at the path of *head*."""
        name = head.path.decode("utf-8", "replace").removeprefix("/wfpredict/").rstrip("/")
        if name not in self._server.models:
            return ModelNotFound(f"there is no workflow {name!r}")
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST", allow="POST")
        return PredictionCall(model=name, is_native=True)

    def openapi(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return nothing: the paths of the pipelines are described."""
        return {}
