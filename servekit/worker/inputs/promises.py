# SPDX-License-Identifier: Apache-2.0
"""Refuses, when a service is loaded, annotations of outputs that no answer can hold."""

import sys
import typing
from typing import Any, Final

from servekit.errors import BootError
from servekit.service.base import Service
from servekit.types import Audio, File, Image
from servekit.worker.inputs.annotations import BatchTypes, place_of
from servekit.worker.inputs.type_hints import shown_type
from servekit.worker.inputs.type_tree import types_within

__all__ = ["refuse_media"]

#: what a service can return in place of each
INSTEAD: Final = {
    Image: 'Response(png_bytes, content_type="image/png")',
    Audio: 'Response(wav_bytes, content_type="audio/wav")',
    File: "Response(file.content, content_type=file.content_type)",
}


def refuse_media(service: Service, types: BatchTypes) -> None:
    """Refuse files, pictures and sound among the outputs of *service*, however deep they lie.

    :raises BootError: its annotations promise one.
    """
    kind = type(service)
    if kind.postprocess is not Service.postprocess:
        _refuse(f"{kind.__name__}.postprocess", *_returned(kind.postprocess))
        return
    _refuse(types.name, types.output, types.place)
    if step := getattr(kind, "step", None):
        _refuse(f"{kind.__name__}.step", *_returned(step))


def _refuse(name: str, output: Any, place: str) -> None:
    for each in types_within(output):
        if (media := _media_of(each)) is not None:
            raise BootError(
                f"{name}: returns {shown_type(each)}, which no answer can hold; "
                f"return the bytes of the file instead, {INSTEAD[media]}{place}"
            )


def _media_of(type_: Any) -> Any:
    """Return the type of ``servekit.types`` that *type_* is, or would be as an input."""
    if not isinstance(type_, type):
        return None
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and issubclass(type_, pillow.Image):
        return Image
    return next((media for media in INSTEAD if issubclass(type_, media)), None)


def _returned(method: Any) -> tuple[Any, str]:
    """Return what *method* is annotated to return, and where; nothing if that cannot be read."""
    try:
        hints = typing.get_type_hints(method, include_extras=True)
    except Exception:  # noqa: BLE001 - an author's annotations may raise anything
        hints = {}
    return hints.get("return", Any), place_of(method)
