# SPDX-License-Identifier: Apache-2.0
"""The service classes for archives: one of 0.x has its own, with the types of its signature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from servekit import InputError, Response, Service
from servekit.errors import BootError
from servekit_mms.archives import JPEG, HandlerArchive, read_archive
from servekit_mms.handlers import HandlerService
from servekit_mms.inputs import InputReader, jpeg_bytes, jpeg_text, output_type
from servekit_mms.model_service import SingleNodeService, needs_mxnet
from servekit_mms.modules import WAY_OUT, import_file, model_service_of
from servekit_mms.options import MMSOptions

if TYPE_CHECKING:
    from pathlib import Path

    from msgspec import Struct

    from servekit import Context
    from servekit_mms.archives import LegacyArchive
    from servekit_mms.model_service import ModelService

__all__ = ["LegacyService", "service_for"]


def service_for(directory: Path) -> type[Service]:
    """Return the service for the archive in *directory*.

    :raises BootError: it is not an archive of MMS, or one that cannot be used.
    """
    archive = read_archive(directory)
    if archive is None:
        raise BootError("service mms: the directory has no MANIFEST.json of MMS")
    if isinstance(archive, HandlerArchive):
        return type("MMSHandler", (HandlerService,), {"archive": archive})
    reader = InputReader(archive.signature)

    def predict(self: LegacyService, batch: Any) -> Any:
        """Return the prediction for each request."""
        return self.answer(batch)

    types = {"batch": reader.type, "return": output_type(archive.signature)}
    predict.__annotations__ = {name: list[each] for name, each in types.items()}  # type: ignore[valid-type]
    members = {"archive": archive, "reader": reader, "predict": predict}
    return type("MMSService", (LegacyService,), members)


class LegacyService(Service):
    """A service class of MMS 0.x in a worker."""

    task = "mms"
    request_headers = ("accept",)

    archive: ClassVar[LegacyArchive]
    reader: ClassVar[InputReader]

    def load(self, context: Context) -> None:
        """Import the service file, and construct the class in it."""
        options, archive = context.read_options(MMSOptions), self.archive
        file, _, name = (options.service or archive.model.service).partition(":")
        path = context.directory / file
        if not path.is_file():
            raise BootError(f"options.service: {path} is not a file")
        kind = model_service_of(import_file(path), path, name)
        if needs_mxnet(kind):
            weights = ", ".join(archive.weights) or "its network"
            reason = f"{kind.__name__} leaves {weights} to MXNet, which servekit does not run"
            raise BootError(f"{reason}; {WAY_OUT}")
        self._context = context
        self._service: ModelService = kind(
            archive.model.name, str(context.directory), archive.manifest, options.gpu
        )
        if isinstance(self._service, SingleNodeService):
            text = "seconds in a step of a service class of MMS"
            steps = context.metrics.histogram("mms_step_seconds", text, ["step"])
            self._service.observe = lambda step, seconds: steps.observe(seconds, step=step)

    def answer(self, batch: list[Struct]) -> list[Any]:
        """Return the prediction for each request; refusing one does not affect the others."""
        accepted = [request.headers.get("accept", "") for request in self._context.requests]
        accepted = accepted or [""] * len(batch)
        return [self._predict(sent, accept) for sent, accept in zip(batch, accepted, strict=True)]

    def _predict(self, sent: Struct, accept: str) -> Any:
        try:
            output = self._service.inference(self.reader.read(sent))
        except InputError as error:
            return error
        if self.archive.signature.output_type != JPEG:
            return output
        text = jpeg_text(output)
        wants_file = "image/" in accept and isinstance(text, str)
        return Response(jpeg_bytes(text), content_type=JPEG) if wants_file else text

    def ping(self) -> None:
        """Ask the service class."""
        self._service.ping()
