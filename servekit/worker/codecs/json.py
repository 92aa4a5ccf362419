# SPDX-License-Identifier: Apache-2.0
"""``application/json``, strict in both directions; numpy values are written as numbers."""

import math
import sys
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, Final

import msgspec

from servekit.errors import BodyMalformed, ResultNotEncodable
from servekit.extension.bodies import decode_problem
from servekit.worker.codecs import surrogates
from servekit.worker.codecs.media import as_mapping, file_of, is_media
from servekit.worker.codecs.subclasses import base_value

__all__ = [
    "MAX_DEPTH",
    "UNFIT",
    "codec",
    "decode_any_json",
    "decode_json",
    "is_fine_time",
    "plain",
    "read_json",
    "read_typed_json",
    "scan",
    "too_deep",
]

MAX_DEPTH: Final = 100
LONG: Final = 1024  #: bytes; in shorter bodies, counting is faster than finding
OPENING, CLOSING = b"[{", b"]}"
STEP = bytes.maketrans(OPENING + CLOSING, b"\x01\x01\xff\xff")  # +1 and -1 as signed bytes
NOT_BRACKETS = bytes(set(range(256)) - set(OPENING + CLOSING))
#: raised by msgspec for an output that it cannot write
UNFIT: Final = (TypeError, ValueError, OverflowError, RecursionError)

_decode = msgspec.json.Decoder().decode

#: checks that a body is JSON, and makes nothing of it; raises ``msgspec.DecodeError``
scan = msgspec.json.Decoder(msgspec.Raw).decode


# ------------------------------------------------------------ reading


def decode_json(body: bytes) -> Any:
    """Return the value of a JSON body.

    :raises BodyMalformed: it is not JSON by RFC 8259, nests deeper than 100 levels, or holds
        NaN, a byte order mark or lone surrogates.
    """
    return read_json(_decode, body)


def decode_any_json(body: bytes) -> Any:
    """Return the value of a JSON body, which may hold lone surrogates.

    :raises BodyMalformed: it is not JSON.
    """
    try:
        return read_json(_decode, body)
    except BodyMalformed as error:
        if not surrogates.may_be_in(body):
            raise
        check_depth(body)
        try:
            return surrogates.loads(body)
        except ValueError:
            raise error from None


def read_json(decode: Callable[[bytes], Any], body: bytes) -> Any:
    """Call *decode*, a ``msgspec.json`` decoder, and report what is wrong with *body*.

    :raises BodyMalformed: it is not JSON, or nests deeper than ``MAX_DEPTH``.
    :raises msgspec.ValidationError: it is JSON, but not of the decoder's type.
    """
    if len(body) > MAX_DEPTH and has_many_brackets(body):
        check_depth(body)
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        if "out of range" in str(error) and not _is_in_range(body):
            raise BodyMalformed(f"body: {error}".replace("`", "")) from None
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = "empty" if not body.strip() else decode_problem(error)
        raise BodyMalformed(f"body: {reason}") from None
    except RecursionError:
        raise too_deep() from None


def _is_in_range(body: bytes) -> bool:
    """Whether *body* is free of numbers such as 1e999, or an integer of 5,000 digits.

    A duration may be "out of range", too, and so may a value in the words of an author.
    """
    try:
        _decode(body)
    except msgspec.ValidationError:
        return False
    return True


def read_typed_json(decode: Callable[[bytes], Any], body: bytes) -> Any:
    """Do the same as ``read_json`` for a *decode* that skips unknown fields.

    msgspec checks the grammar of what it skips, but not the encoding.
    """
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            raise BodyMalformed("body: not UTF-8") from None
    return read_json(decode, body)


def has_many_brackets(body: bytes) -> bool:
    """Whether *body* opens more than ``MAX_DEPTH`` brackets, which is the least for such a depth.

    To find the next byte of a kind is ten times as fast as to count them all.
    """
    if len(body) < LONG:
        return body.count(b"[") + body.count(b"{") > MAX_DEPTH
    left = MAX_DEPTH
    for bracket in (b"[", b"{"):
        at = body.find(bracket)
        while at >= 0:
            if not left:
                return True
            left -= 1
            at = body.find(bracket, at + 1)
    return False


def check_depth(body: bytes) -> None:
    """Refuse a body that nests deeper than ``MAX_DEPTH``, in linear time, without a loop.

    :raises BodyMalformed: it does.
    """
    if b"\\" in body:
        body = body.replace(rb"\\", b"").replace(rb"\"", b"")
    outside_strings = b"".join(body.split(b'"')[::2])
    brackets = outside_strings.translate(STEP, NOT_BRACKETS)
    if max(accumulate(memoryview(brackets).cast("b")), default=0) > MAX_DEPTH:
        raise too_deep()


def too_deep() -> BodyMalformed:
    """Return the error of a body that is nested too deep."""
    return BodyMalformed(f"body: nested deeper than {MAX_DEPTH} levels")


# ------------------------------------------------------------ writing


def plain(value: Any) -> Any:
    """Return arrays, pydantic models and media as what msgspec can write, or calls this with again.

    So are values of classes derived from Python's own. msgspec calls it for types that it does not
    know. A service that returns such a value has imported its library.

    :raises TypeError: *value* is something else.
    :raises ResultNotEncodable: it is an array that NumPy cannot hold.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        if value.ndim < 2 and value.dtype.isbuiltin != 2:  # defined by another library
            return value.tolist()
        from servekit.worker.codecs.arrays import as_lists  # imports numpy

        return as_lists(value)
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if is_media(value):
        return as_mapping(file_of(value))
    if is_fine_time(value):
        return str(value)
    if (own := base_value(value)) is not None:
        return own
    from servekit.worker.codecs.foreign_arrays import as_array  # imports numpy

    if (array := as_array(value)) is not None:
        return array  # and msgspec calls again
    raise TypeError(f"a {type(value).__name__} is not JSON")


def is_fine_time(value: Any) -> bool:
    """Whether *value* is a ``FineTime``; only ``timestamps.py`` makes them."""
    timestamps = sys.modules.get("servekit.worker.codecs.timestamps")
    return timestamps is not None and isinstance(value, timestamps.FineTime)


class Writers(dict[type, Callable[[Any], Any]]):
    """Types to functions that make their values writable for msgspec. Remembers numpy's types."""

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        numpy = sys.modules.get("numpy")
        if numpy is None or not issubclass(kind, numpy.ndarray | numpy.generic):
            return plain
        from servekit.worker.codecs.numpy_json import writer_of  # imports numpy

        self[kind] = write = writer_of(kind) or plain
        return write


_writers = Writers()
_encode = msgspec.json.Encoder(enc_hook=lambda value: _writers[type(value)](value)).encode
_encode_plain = msgspec.json.Encoder(enc_hook=plain).encode


class JsonCodec:
    """Decodes any JSON body, encodes ``{"prediction": output}``."""

    is_enveloped = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> Any:  # noqa: ARG002
        """Return the value of *body*."""
        return decode_json(body)

    def encode(self, output: Any) -> bytes:
        """Return *output* as JSON; refuse what JSON cannot hold, such as NaN and infinity."""
        try:
            text = _encode(output)
        except UNFIT:
            text = _encode_refused(output)
        # msgspec writes NaN and infinity as null; look closer only where there is one. A long array
        # has no other u, and a single byte is found a hundred times as fast as a word
        if (
            b"u" in text
            and b"null" in text
            and not _is_finite(msgspec.to_builtins(output, enc_hook=plain))
        ):
            raise ResultNotEncodable("output: NaN or infinity is not JSON")
        return text


def _encode_refused(output: Any) -> bytes:
    """Return the JSON of an *output* that msgspec has refused, if there is any.

    :raises ResultNotEncodable: there is none.
    """
    try:
        try:
            return _encode_plain(output)  # numpy's numbers may be keys, but ``Raw`` may not
        except UnicodeEncodeError:  # a lone surrogate
            return surrogates.dumps(msgspec.to_builtins(output, enc_hook=plain, str_keys=True))
    except UNFIT as error:
        raise ResultNotEncodable(f"output: {error}") from error


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(_is_finite, value))


codec = JsonCodec()
