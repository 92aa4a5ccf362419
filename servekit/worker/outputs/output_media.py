# SPDX-License-Identifier: Apache-2.0
"""Writes the media among the outputs of a service, by the annotation of what it returns."""

import types
import typing
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from servekit.errors import BootError, ResultNotEncodable
from servekit.service.response import Response
from servekit.types import File
from servekit.types.formats import OutputFormat
from servekit.worker.codecs.plain import OCTET_STREAM
from servekit.worker.inputs.type_hints import bare, is_union, shown_type
from servekit.worker.inputs.type_tree import types_within
from servekit.worker.outputs.declared_media import DeclaredMedia, format_of, media_of
from servekit.worker.outputs.with_files import NotOfItsType, holds_media, with_files

__all__ = ["OutputMedia", "output_media"]


def output_media(type_: Any, name: str = "", place: str = "") -> "OutputMedia | None":
    """Return what writes the media of outputs of *type_*; ``None`` if they hold none.

    :param name: of the method that returns them, for errors.
    :param place: where that is written.
    :raises BootError: one of them cannot be written as it is declared.
    """
    for each in types_within(type_):
        if format_of(each) is not None and media_of(each) is None:
            raise BootError(
                f"{name}: declares a Format of {shown_type(bare(each))}; it belongs to an Image, "
                f"an Audio or a File, as in Annotated[Image, Format(...)] | None{place}"
            )
    if not holds_media(type_):
        return None
    try:
        for media in filter(None, map(media_of, types_within(type_))):
            media.check()
    except BootError as error:
        raise BootError(f"{name}: {error}{place}") from None
    return OutputMedia(type_)


class OutputMedia:
    """The media of outputs of one type, which holds some."""

    def __init__(self, type_: Any, lone: DeclaredMedia | None = None, sent_as: str = "") -> None:
        """Write what has been checked.

        :param type_: of one output.
        :param lone: what an output is, if more is known of it than its type says.
        :param sent_as: the media type of an output that is a file, with its parameters.
        """
        self._type, self._lone, self._sent_as = type_, lone or _single(type_), sent_as
        #: those of an output that is itself a picture, a sound or a file; the best one first
        self.media_types = self._lone.media_types() if self._lone is not None else []

    @property
    def is_file(self) -> bool:
        """Whether an output is a ``File``, which has its own media type."""
        return self._lone is not None and self._lone.type is File

    def check(self, output: Any) -> None:
        """Look at an output that is a picture or a sound.

        :raises NotOfItsType: it is something else.
        """
        if output is not None and self._lone and not isinstance(output, self._lone.type):
            raise NotOfItsType(output, self._type)

    def with_files(self, output: Any) -> Any:
        """Return *output* as JSON and msgpack can hold it.

        :raises ResultNotEncodable: a picture or a sound cannot be written, or is something else.
        """
        try:
            return with_files(output, self._type)
        except (TypeError, ValueError) as error:
            raise ResultNotEncodable(f"output: {error}") from error

    def as_object(self, output: Any) -> Any:
        """Return *output* as envelopes get it; that of a ``Response`` likewise."""
        if isinstance(output, Response):
            return replace(output, output=self.with_files(output.output))
        return self.with_files(output)

    def of_lists(self) -> "OutputMedia":
        """Return what writes lists of these outputs."""
        return OutputMedia(types.GenericAlias(list, (self._type,)))

    def of_file(self, content_type: str) -> "OutputMedia":
        """Return what writes an output that is a file of *content_type*; "" is the declared one.

        :raises ResultNotEncodable: it is not a media type, or not the declared one.
        """
        declared = self._lone.best if self._lone is not None else ""
        sent_as = _plain_type(content_type or declared or OCTET_STREAM)
        media_type = sent_as.partition(";")[0].strip().lower()
        if declared not in ("", media_type):
            raise ResultNotEncodable(f"output: a file of {media_type[:80]}, declared as {declared}")
        return OutputMedia(self._type, DeclaredMedia(File, OutputFormat(media_type)), sent_as)

    def writer(self, media_type: str) -> tuple[str, Callable[[Any], bytes]]:
        """Return the media type that is sent, and what writes an output as *media_type*.

        :param media_type: one of ``media_types``.
        """
        lone = self._lone
        assert lone is not None

        def encode(output: Any) -> bytes:
            """Return the content; ``TypeError`` if the output is something else."""
            if not isinstance(output, lone.type):
                raise TypeError(f"a {type(output).__name__} is not {media_type}")
            try:
                return lone.file_of(output, media_type).content
            except (TypeError, ValueError) as error:
                raise ResultNotEncodable(f"output: {error}") from error

        return self._sent_as or media_type, encode


def _plain_type(content_type: Any) -> str:
    """Return *content_type*, of a file that an author made, as a plain string.

    :raises ResultNotEncodable: it is not a content type.
    """
    try:
        return str(Response(b"", content_type=content_type).content_type)
    except ValueError as error:
        raise ResultNotEncodable(f"output: a file: {error}") from None


def _single(type_: Any) -> DeclaredMedia | None:
    """Return the media that an output of *type_* is, if it is not ``None``."""
    union = bare(type_)
    if not is_union(union):
        return media_of(type_)
    members = [each for each in typing.get_args(union) if each is not types.NoneType]
    return media_of(members[0]) if len(members) == 1 else None
