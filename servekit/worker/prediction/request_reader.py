# SPDX-License-Identifier: Apache-2.0
"""Reads the body of a request by its ``Content-Type``, and makes an input of it."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from servekit.errors import BodyMalformed, InputError, RequestError, UnknownMediaType
from servekit.extension.envelope import Rows
from servekit.ipc.batches import BETWEEN_STEPS, QUERY_BODY
from servekit.types import File
from servekit.worker.codecs.media_headers import parse_content_type, remember
from servekit.worker.codecs.table import CodecTable
from servekit.worker.codecs.value import as_declared
from servekit.worker.inputs.form_rules import NO_RULES, FormRules
from servekit.worker.inputs.forms import FORM, decode_form, decode_query
from servekit.worker.inputs.row_counts import check_counts
from servekit.worker.prediction.objects import LISTS, OBJECT

if TYPE_CHECKING:
    from servekit.worker.inputs.input_kind import InputKind
    from servekit.worker.inputs.row_input import RowInput

__all__ = ["BodyReader", "BodyReaders", "InputReaders", "is_taken", "sent"]

#: between steps: what a client sends cannot have these content types, as there is a NUL in them
STEPS = frozenset(name.encode() for name in BETWEEN_STEPS)
#: between steps, and from the front-end, only
INTERNAL = (*STEPS, QUERY_BODY.encode(), OBJECT, LISTS)
URLENCODED = "application/x-www-form-urlencoded"
UTF_8 = ("utf-8", "utf8")

#: a body to its value, or to an input
Read = Callable[[bytes], Any]


class BodyReader(NamedTuple):
    """The codec of one ``Content-Type``."""

    media_type: str
    decode: Read
    takes_views: bool  #: ``decode`` takes a memoryview in place of bytes


#: media type of inputs that an envelope has decoded
DECODED = BodyReader("", attrgetter("value"), True)


class BodyReaders(dict[bytes, BodyReader]):
    """``Content-Type`` as received to its codec, which is found when the header first occurs."""

    def __init__(self, table: CodecTable, rules: FormRules = NO_RULES) -> None:
        """Read what *table* reads, and forms of it; what *rules* call a file is not decoded."""
        self._table, self._rules = table, rules

    def __missing__(self, header: bytes) -> BodyReader:
        if header in (OBJECT, LISTS):
            return DECODED
        if header in STEPS:
            return self._between_steps(header)
        media_type, parameters = parse_content_type(header) if header.strip() else ("", {})
        decode, takes_views = self._decoder(media_type, parameters)
        reader = BodyReader(media_type, decode, takes_views)
        if media_type != FORM:  # every form has its own boundary
            remember(self, header, reader)
        return reader

    def find(self, header: bytes, taken: Sequence[str] | None) -> BodyReader:
        """Return the reader of *header* if its media type is one of *taken*; all are if ``None``.

        :raises UnknownMediaType: it is not, or there is no such reader.
        """
        if taken is not None and header not in INTERNAL:
            media_type = parse_content_type(header)[0] if header.strip() else ""
            if not is_taken(media_type, taken):
                raise UnknownMediaType(_not_taken(media_type, taken))
        return self[header]

    def _between_steps(self, header: bytes) -> BodyReader:
        codec = self._table.internal(media_type := header.decode())
        assert codec is not None
        assert codec.decode is not None
        decode = codec.decode
        self[header] = reader = BodyReader(media_type, lambda body: decode(body, {}), True)
        return reader

    def _decoder(self, media_type: str, parameters: dict[str, str]) -> tuple[Read, bool]:
        charset = parameters.get("charset", "utf-8")
        if charset.lower() not in UTF_8:
            raise UnknownMediaType(f"Content-Type: charset {charset[:40]!r} is not utf-8")
        if media_type == FORM:
            part, rules = self._read_part, self._rules
            return partial(decode_form, parameters=parameters, read_part=part, rules=rules), False
        if media_type == QUERY_BODY:
            return partial(decode_query, rules=self._rules), False
        if self._rules.is_file(media_type):
            return partial(File, "", media_type), False
        codec = self._table.reader(media_type)
        if codec is None or codec.decode is None:
            raise UnknownMediaType(_not_taken(media_type, [*self._table.media_types, FORM]))
        decode = codec.decode
        guarded = partial(_decode_guarded, media_type, lambda body: decode(body, parameters))
        return guarded, getattr(codec, "takes_views", False)

    def takes_views(self, header: bytes) -> bool:
        """Whether bodies of this ``Content-Type`` may be given as memoryviews."""
        try:
            return self[header].takes_views
        except RequestError:
            return False  # the decoding of the item raises it again

    def _read_part(self, header: bytes, body: bytes) -> Any:
        if header.lstrip().lower().startswith(b"multipart/"):
            raise UnknownMediaType("Content-Type: a form within a form")
        return self[sent(header)].decode(body)


def sent(header: bytes) -> bytes:
    """Return the ``Content-Type`` *header* of something that a client has sent.

    :raises UnknownMediaType: it is one that only our own processes use.
    """
    if b"\0" in header:
        raise UnknownMediaType("Content-Type: contains NUL")
    return header


def is_taken(media_type: str, taken: Collection[str]) -> bool:
    """Whether *media_type* is one of *taken*, lies in a range of it, or is JSON by its suffix."""
    own_range = f"{media_type.partition('/')[0]}/*"
    is_json = media_type.endswith("+json") and "application/json" in taken
    return media_type in taken or own_range in taken or "*/*" in taken or is_json


def _not_taken(media_type: str, taken: Iterable[str]) -> str:
    """Return the message for a body whose *media_type* is not one of *taken*."""
    if media_type == URLENCODED:
        hint = "to send JSON with curl, add -H 'Content-Type: application/json'"
        return f"Content-Type: {URLENCODED} is not taken; {hint}"
    found = f"{media_type[:80]} is not taken" if media_type else "missing"
    return f"Content-Type: {found}; one of {', '.join(taken)}"


def _decode_guarded(media_type: str, decode: Read, body: bytes) -> Any:
    """Call *decode*; a body that it cannot read is malformed, whatever it raises.

    :raises BodyMalformed: the codec raised an error that is not a ``RequestError``.
    """
    try:
        value = decode(body)
    except (RequestError, MemoryError):
        raise
    except Exception as error:
        raise BodyMalformed(f"body: not readable as {media_type[:80]}") from error
    check_counts((value,), len(body))
    return value


class InputReaders(dict[bytes, Read]):
    """``Content-Type`` as received to what makes a checked input of a body."""

    def __init__(
        self,
        bodies: BodyReaders,
        kind: "InputKind | RowInput",
        *,
        has_own_json: bool,
        taken: Sequence[str] | None = None,
    ) -> None:
        """Read *kind*; JSON straight into it, unless a plugin has its own codec of JSON.

        :param taken: media types and ranges that inputs can be made of; all if ``None``.
        """
        self.takes_rows = True  #: ``Rows``, which codecs of tables make of bodies
        self._bodies, self._kind, self._has_own_json = bodies, kind, has_own_json
        self._taken = taken

    def takes_views(self, header: bytes) -> bool:
        """Whether bodies of this ``Content-Type`` may be given as memoryviews."""
        return self._bodies.takes_views(header)

    def __missing__(self, header: bytes) -> Read:
        if header == LISTS:
            self[header] = _lists
            return _lists
        reader = self._bodies.find(header, self._taken)
        check = self._kind.check if self.takes_rows else self._check_single
        decode = reader.decode
        is_json = reader.media_type == "application/json" or reader.media_type.endswith("+json")
        is_direct = is_json and not self._has_own_json
        accept = partial(as_declared, check) if header in STEPS else check
        read = self._kind.decode_json if is_direct else lambda body: accept(decode(body))
        if reader.media_type != FORM:
            remember(self, header, read)
        return read

    def _check_single(self, value: Any) -> Any:
        """Check a decoded value for a service that takes one input at a time.

        :raises InputError: it is a table.
        """
        if type(value) is Rows:
            raise InputError("a table has rows, and this model takes one input in a request")
        return self._kind.check(value)


def _lists(body: Any) -> tuple[Any, ...]:
    """Return the input of a signature that a ``DecodedInput`` has for a ``ListInput``."""
    return (*body.value.values(),)
