# SPDX-License-Identifier: Apache-2.0
"""Content negotiation: from ``Accept`` to the codecs that may write an output, best first."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from servekit.errors import NotAcceptable
from servekit.ipc.response_style import ResponseStyle
from servekit.worker.codecs.json import codec as json
from servekit.worker.codecs.media_headers import MediaRange, parse_accept, remember
from servekit.worker.codecs.plain import MAGIC, OCTET_STREAM, raw, sniff
from servekit.worker.codecs.table import CodecTable
from servekit.worker.prediction.objects import OBJECT
from servekit.worker.prediction.output_mistakes import Encode

__all__ = ["AS_OBJECT", "PIECE", "Plan", "Plans", "Writer"]


class Writer(NamedTuple):
    """Encodes outputs as one media type."""

    media_type: str
    encode: Encode
    takes_any: bool  #: it takes outputs of every kind, so no writer after it is tried
    is_enveloped: bool = False  #: it takes ``{"prediction": output}``


class Plan(NamedTuple):
    """The writers that an ``Accept`` allows, best first."""

    values: list[Writer]
    raw: list[Writer]  #: for an output of bytes
    #: looks at an output that is a file, a picture or a sound: returns the plan for it
    of_media: Callable[[Any], "Plan"] | None = None


#: the output is left to an envelope
AS_OBJECT = Plan([], [])
AS_JSON = Writer("application/json", json.encode, takes_any=True)
#: for one of the outputs of a stream
PIECE = Plan([AS_JSON], [AS_JSON])


class Plans(dict[bytes, Plan]):
    """``Accept`` as received to its plan, which is made when the header first occurs."""

    def __init__(
        self,
        table: CodecTable,
        produces: Sequence[str] | None = None,
        lone: str = "",
        *,
        is_bare: bool = False,
    ) -> None:
        """Write with the codecs of *table*.

        :param produces: media types that can hold the outputs; all of *table* if ``None``.
        :param lone: name of the only output of a signature. Codecs that do not write
            ``{"prediction": ...}`` get its value without the mapping around it.
        :param is_bare: no codec writes ``{"prediction": ...}``.
        """
        self._lone, self._is_bare = lone, is_bare
        self._bare = self if is_bare else Plans(table, produces, lone, is_bare=True)
        self._table = table
        every = table.written if produces is None else produces
        self._media_types = [name for name in every if not name.endswith("/*")]
        self._may_be_bytes = OCTET_STREAM in self._media_types

    def of(self, style: ResponseStyle) -> "Plans":
        """Return the plans of responses with *style*."""
        return self._bare if style.is_bare else self

    @property
    def piece(self) -> Plan:
        """The plan for one of the outputs of a stream."""
        return PIECE

    def as_object(self, output: Any) -> Any:
        """Return *output* as envelopes get it."""
        return output

    def as_piece(self, output: Any) -> Any:
        """Return one of the outputs of a stream as envelopes get it."""
        return output

    def __missing__(self, header: bytes) -> Plan:
        if header == OBJECT:
            self[header] = AS_OBJECT
            return AS_OBJECT
        if (codec := self._table.internal(name := header.decode("latin-1"))) and codec.encode:
            writer = self._between(Writer(name, codec.encode, True))
            self[header] = plan = Plan([writer], [writer])
            return plan
        plan = self._plan(parse_accept(header))
        remember(self, header, plan)
        return plan

    def _between(self, writer: Writer) -> Writer:
        """Return *writer*, of a media type between steps, as it gets the outputs."""
        return writer

    def _plan(self, ranges: list[MediaRange]) -> Plan:
        """Return the plan of a client that accepts *ranges*.

        :raises NotAcceptable: none of them can hold an output.
        """
        asked = [found.name for found in ranges if found.is_concrete]
        values = _ranked(ranges, [*self._offered(asked), *filter(self._is_in_a_range, asked)])
        for_bytes = _ranked(ranges, [OCTET_STREAM, *asked, *MAGIC, *self._media_types])
        plan = Plan(
            _until_any(self._writer(name) for name in values),
            _until_any(self._raw_writer(name, name in asked) for name in for_bytes),
        )
        if not plan.values and not (plan.raw and self._may_be_bytes):
            available = ", ".join(self._media_types)
            raise NotAcceptable(f"Accept: no acceptable media type; available: {available}")
        return plan

    def _offered(self, asked: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """Return the media types of outputs, best first, for a client that names *asked*."""
        return self._media_types

    def _is_in_a_range(self, media_type: str) -> bool:
        """Whether the codec of a range may write *media_type*, which has no codec for itself."""
        own = self._table.media_types
        range_ = media_type.partition("/")[0] + "/*"
        takes_values = range_ in own and not self._table.is_builtin(range_)
        return media_type not in own and (takes_values or self._may_be_bytes)

    def _writer(self, media_type: str) -> Writer | None:
        codec = self._table.writer(media_type)
        if codec is None or codec.encode is None:
            return None
        encode = codec.encode
        if getattr(codec, "is_enveloped", False):
            return Writer(media_type, encode, True, is_enveloped=not self._is_bare)
        if lone := self._lone:
            return Writer(media_type, lambda output: encode(_unnamed(output, lone)), False)
        return Writer(media_type, encode, False)

    def _raw_writer(self, media_type: str, is_asked: bool) -> Writer | None:
        """Send bytes unchanged as *media_type*, unless they look like another one."""
        if media_type == OCTET_STREAM:
            return Writer(media_type, raw.encode, True)
        if media_type.partition("/")[0] not in ("image", "audio", "video"):
            return self._writer(media_type)

        def encode(output: Any) -> bytes:
            found = sniff(output)
            if found == media_type or (found is None and is_asked):
                return raw.encode(output)
            raise TypeError(f"bytes that are not {media_type}")

        return Writer(media_type, encode, False)


def _unnamed(output: Any, name: str) -> Any:
    """Return the value of a mapping that holds only *name*; any other *output* unchanged."""
    is_lone = type(output) is dict and output.keys() == {name}
    return output[name] if is_lone else output


def _until_any(writers: Iterable[Writer | None]) -> list[Writer]:
    """Return *writers* up to the first that takes every output; later codecs are not imported."""
    found = []
    for writer in filter(None, writers):
        found.append(writer)
        if writer.takes_any:
            break
    return found


def _ranked(ranges: list[MediaRange], media_types: Iterable[str]) -> list[str]:
    """Return those of *media_types* that *ranges* accept, by quality, then in their order."""
    qualities = {name: _quality(ranges, name) for name in dict.fromkeys(media_types)}
    accepted = [name for name, quality in qualities.items() if quality > 0]
    return sorted(accepted, key=lambda name: -qualities[name])


def _quality(ranges: list[MediaRange], media_type: str) -> float:
    """Return the quality that the most specific range gives; 0 if none matches."""
    matching = [found for found in ranges if found.matches(media_type)]
    return max(matching, key=lambda found: found.specificity).quality if matching else 0.0
