# SPDX-License-Identifier: Apache-2.0
"""Content negotiation where outputs hold media: a picture as PNG, as JPEG, or within JSON."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final

from servekit.errors import NotAcceptable
from servekit.ipc.batches import ELEMENT
from servekit.types import File
from servekit.worker.codecs.json import codec as json
from servekit.worker.codecs.media_headers import MediaRange
from servekit.worker.codecs.table import CodecTable
from servekit.worker.outputs.declared_media import ANY_TYPE
from servekit.worker.outputs.output_media import OutputMedia
from servekit.worker.prediction.negotiation import PIECE, Plan, Plans, Writer
from servekit.worker.prediction.output_mistakes import Encode

__all__ = ["MediaPlans"]

KNOWN_FILES: Final = 16  #: content types of files whose plans are kept, for each Accept


class MediaPlans(Plans):
    """Plans of outputs with media. Codecs get them with files in the place of media."""

    def __init__(
        self,
        table: CodecTable,
        produces: Sequence[str],
        media: OutputMedia,
        pieces: OutputMedia | None = None,
        *,
        is_bare: bool = False,
    ) -> None:
        """Write with *media*, and with the codecs of *table*.

        :param produces: media types that can hold the outputs, best first.
        :param pieces: of one of the outputs of a stream.
        """
        self._media, self._pieces = media, pieces
        super().__init__(table, produces, is_bare=is_bare)
        self._bare = self if is_bare else MediaPlans(table, produces, media, pieces, is_bare=True)

    @property
    def piece(self) -> Plan:
        """The plan for one of the outputs of a stream."""
        if self._pieces is None:
            return super().piece
        as_json = PIECE.values[0]._replace(encode=_before(self._pieces.with_files, json.encode))
        return Plan([as_json], [as_json])

    def as_object(self, output: Any) -> Any:
        """Return *output* as envelopes get it: with files."""
        return self._media.as_object(output)

    def as_piece(self, output: Any) -> Any:
        """Return one of the outputs of a stream as envelopes get it."""
        return output if self._pieces is None else self._pieces.as_object(output)

    def _between(self, writer: Writer) -> Writer:
        if writer.media_type != ELEMENT:  # the next step gets the picture itself
            return writer
        return writer._replace(encode=_before(self._media.with_files, writer.encode))

    def _plan(self, ranges: list[MediaRange]) -> Plan:
        if not self._media.media_types:
            return super()._plan(ranges)
        if not self._media.is_file:
            plan = super()._plan(ranges)
            return plan._replace(of_media=partial(self._checked, plan))
        of_file = lru_cache(KNOWN_FILES)(partial(self._plan_of_file, ranges))
        try:
            plan = super()._plan(ranges)
        except NotAcceptable:
            if ANY_TYPE not in self._media.media_types:  # else it is known once a file is there
                raise
            plan = Plan([], [])

        def of_media(output: Any) -> Plan:
            return of_file(output.content_type) if isinstance(output, File) else plan

        return plan._replace(of_media=of_media)

    def _checked(self, plan: Plan, output: Any) -> Plan:
        """Return *plan*, for an *output* that is a picture or a sound.

        :raises NotOfItsType: it is something else.
        """
        self._media.check(output)
        return plan

    def _plan_of_file(self, ranges: list[MediaRange], content_type: str) -> Plan:
        """Return the plan for a file of *content_type*.

        :raises NotAcceptable: the client does not accept it.
        :raises ResultNotEncodable: the type is not valid, or not what is declared.
        """
        media = self._media.of_file(content_type)
        others = [name for name in self._media_types if name not in self._media.media_types]
        produces = [*media.media_types, *others]
        plans = MediaPlans(self._table, produces, media, is_bare=self._is_bare)
        return plans._plan(ranges)

    def _offered(self, asked: Sequence[str]) -> Sequence[str]:
        """Return those that the client names first, so that */* beside JSON means JSON."""
        return [*(name for name in asked if name in self._media_types), *self._media_types]

    def _writer(self, media_type: str) -> Writer | None:
        found = super()._writer(media_type)
        is_mapping = found is not None and found.takes_any  # where files are base64
        if media_type in self._media.media_types and not is_mapping:
            return Writer(*self._media.writer(media_type), False)
        if found is None:
            return None
        encode = _before(self._media.with_files, found.encode, is_enveloped=found.is_enveloped)
        return found._replace(encode=encode, is_enveloped=False)


def _before(with_files: Any, encode: Encode, *, is_enveloped: bool = False) -> Encode:
    """Return what writes an output with files, as ``{"prediction": output}`` if *is_enveloped*."""
    if is_enveloped:
        return lambda output: encode({"prediction": with_files(output)})
    return lambda output: encode(with_files(output))
