# SPDX-License-Identifier: Apache-2.0
"""The service ``torchserve``: an archive of torch-model-archiver with its handler."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from servekit import Context, Service
from servekit.errors import BootError, RequestError
from servekit_torchserve.archive import manifest_content, parse_manifest
from servekit_torchserve.batch import HandlerCalls
from servekit_torchserve.context import HandlerContext
from servekit_torchserve.entry import open_handler
from servekit_torchserve.handler_metrics import HandlerMetrics
from servekit_torchserve.model_config import read_config
from servekit_torchserve.options import TorchServeOptions
from servekit_torchserve.requests import HandlerRequest, SentRequest, read_row
from servekit_torchserve.service_envelopes import with_envelope

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["SHIM", "ArchivedHandler", "TorchServeModel", "system_properties"]

SHIM: Final = Path(__file__).parent / "shim"
MANIFEST: Final = "MAR-INF/MANIFEST.json"
VERSION: Final = "0.12.0"  #: the TorchServe whose contract is kept
DEVICES: Final = "CUDA_VISIBLE_DEVICES"


class ArchivedHandler(Service):
    """Has the handler of an archive; subclasses call it."""

    task = "torchserve"

    def load(self, context: Context) -> None:
        """Import the handler, and have it load its model."""
        options = context.read_options(TorchServeOptions)
        directory, content = context.directory, manifest_content(context.directory)
        manifest = parse_manifest(content) if content is not None else None
        if content is None or manifest is None:
            raise BootError(f"{MANIFEST}: is missing, or not one of torch-model-archiver")
        if not (handler := options.handler or manifest.model.handler):
            raise BootError(f"{MANIFEST}: names no handler; set options.handler")
        self._read_requests, self._decodes = context.read_requests, options.decode_input
        self.handler_context = HandlerContext(
            context.model,
            json.loads(content),
            system_properties(context, options),
            HandlerMetrics(context.metrics),
            read_config(directory, manifest.model.config_file),
        )
        sys.path.insert(1, str(SHIM))  # ``ts``, after the files of the archive
        handle = with_envelope(
            options.envelope, open_handler(directory, handler, self.handler_context)
        )
        self.calls = HandlerCalls(
            handle, self.handler_context, context.logger, isolates=options.isolate
        )
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(context.threads)

    def read(self, value: Any, place: int = 0) -> HandlerRequest:
        """Return what the handler gets for an input.

        :param value: as the protocol passes it on, or decoded by the path of the model itself.
        :param place: of the input in its batch.
        :raises BodyMalformed: it is a form that cannot be read.
        """
        if type(value) is SentRequest:
            row = read_row(value.content_type, value.body, value.query, decodes=self._decodes)
            return HandlerRequest(row, value.headers, value.request_id)
        request = self._read_requests()[place]
        if request.content_type == "multipart/form-data":
            row = dict(value)
        else:
            row = read_row(request.content_type, request.buffer, decodes=self._decodes)
        return HandlerRequest(row, {}, request.request_id, is_native=True)


class TorchServeModel(ArchivedHandler):
    """Calls the handler with batches of requests."""

    def predict(self, batch: list[Any]) -> list[Any]:
        """Return the responses of the handler, and errors for requests that cannot be read."""
        answers: list[Any] = [None] * len(batch)
        requests: dict[int, HandlerRequest] = {}
        for place, value in enumerate(batch):
            try:
                requests[place] = self.read(value, place)
            except RequestError as error:
                answers[place] = error
        responses = self.calls.answer([*requests.values()])
        for (place, request), response in zip(requests.items(), responses, strict=True):
            answers[place] = response.native() if request.is_native else response
        return answers


def system_properties(context: Context, options: TorchServeOptions) -> Mapping[str, Any]:
    """Return ``context.system_properties`` of handlers."""
    return {
        "model_dir": str(context.directory),
        "gpu_id": _gpu(context.replica),
        "batch_size": context.max_batch_size,
        "server_name": "MMS",
        "server_version": VERSION,
        "limit_max_image_pixels": options.limit_max_image_pixels,
    }


def _gpu(replica: int) -> int | None:
    """Return the GPU of a replica among those that it may see; they take turns."""
    shown = os.environ.get(DEVICES)
    count = (
        len(list(Path("/dev").glob("nvidia[0-9]*")))
        if shown is None
        else len([each for each in shown.split(",") if each.strip()])
    )
    return replica % count if count else None
