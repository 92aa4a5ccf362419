# SPDX-License-Identifier: Apache-2.0
"""The wire format of protobuf: parts of messages, read and written without parsing the rest."""

from collections.abc import Sequence
from typing import Final

__all__ = [
    "MESSAGE",
    "MESSAGES",
    "RAW_OUTPUTS",
    "RESPONSE_ID",
    "delimited",
    "error_piece",
    "framed",
    "id_of",
    "is_error",
    "model_of",
    "named",
    "names_of",
    "parts_of",
    "response_piece",
    "varint",
]

#: media types between the gRPC process and workers: one message, and a stream of them
MESSAGE: Final = "application/x-protobuf"
MESSAGES: Final = "application/x-protobuf-stream"
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  #: kinds of fields
MODEL_NAME, MODEL_VERSION, REQUEST_ID, RAW_INPUTS = 1, 2, 3, 7  #: fields of ModelInferRequest
MODEL_TAG, VERSION_TAG = MODEL_NAME << 3 | LENGTH, MODEL_VERSION << 3 | LENGTH
MORE = 0x80  #: set in a byte of a number that is not the last one
ERROR_MESSAGE, INFER_RESPONSE = 1, 2  #: fields of ModelStreamInferResponse
ERROR_TAG: Final = bytes([ERROR_MESSAGE << 3 | LENGTH])
RESPONSE_ID, RAW_OUTPUTS = 3, 6  #: fields of ModelInferResponse
MAX_FIELDS: Final = 1024  #: that are looked at for a model that is not named first
MAX_VARINT: Final = 10  #: bytes


def model_of(message: bytes) -> tuple[str, str]:
    """Return the model and the version that the ModelInferRequest *message* names, or "".

    Both come first in what every protobuf library writes, so this takes microseconds.

    :raises ValueError: it is not a message, or the model comes after very many other fields.
    """
    model = version = b""
    at = count = 0
    while at < len(message):
        number, kind, start, end = _field(message, at)
        if number > MODEL_VERSION and model:
            break
        if kind == LENGTH and number == MODEL_NAME:
            model = message[start:end]
        elif kind == LENGTH and number == MODEL_VERSION:
            version = message[start:end]
        at, count = end, count + 1
        if count > MAX_FIELDS:
            raise ValueError("model_name: not among the first fields")
    return model.decode(), version.decode()


def id_of(message: bytes | memoryview) -> str:
    """Return the id of the ModelInferRequest *message*, or "".

    It stands before the tensors in what every protobuf library writes.
    """
    id_, at, number = "", 0, 0
    try:
        while at < len(message) and number <= REQUEST_ID:
            number, kind, start, at = _field(message, at)
            if kind == LENGTH and number == REQUEST_ID:
                id_ = str(message[start:at], "utf-8")
    except ValueError:  # the answer says what is wrong
        pass
    return id_


def names_of(message: bytes) -> bytes:
    """Return the beginning of a ModelInferRequest that names model and version, if it is usual.

    :return: *message* itself if it begins in another way, or with long names.
    """
    size = len(message)
    if size < 3 or message[0] != MODEL_TAG or message[1] >= MORE:
        return message
    end = 2 + message[1]
    if end + 1 < size and message[end] == VERSION_TAG and message[end + 1] < MORE:
        end += 2 + message[end + 1]
    is_usual = end < size and message[end] not in (MODEL_TAG, VERSION_TAG)
    return message[:end] if is_usual else message


def parts_of(message: bytes | memoryview) -> tuple[bytes, str, list[memoryview]]:
    """Return the parts of a ModelInferRequest: what clients repeat, its id, raw contents.

    :raises ValueError: it is not a message.
    """
    view, at, size = memoryview(message), 0, len(message)
    rest: list[memoryview] = []
    contents: list[memoryview] = []
    id_ = ""
    while at < size:
        tag = message[at]
        length = message[at + 1] if at + 1 < size else MORE
        if tag & 7 == LENGTH and tag < MORE and length < MORE:  # the most usual field
            start, end = at + 2, at + 2 + length
            number = tag >> 3
            if end > size:
                raise ValueError("body: a protobuf message that is cut off")
        else:
            number, kind, start, end = _field(message, at)
            number = number if kind == LENGTH else 0
        if number == RAW_INPUTS:
            contents.append(view[start:end])
        elif number == REQUEST_ID:
            id_ = str(view[start:end], "utf-8")
        else:
            rest.append(view[at:end])
        at = end
    return b"".join(rest), id_, contents


def _field(message: bytes | memoryview, at: int) -> tuple[int, int, int, int]:
    """Return number and kind of the field at *at*, and where its content begins and ends.

    :raises ValueError: there is no field, or it is longer than the message.
    """
    tag, start = _varint(message, at)
    kind = tag & 7
    if kind == LENGTH:
        length, start = _varint(message, start)
        end = start + length
    elif kind == VARINT:
        _, end = _varint(message, start)
    elif kind in (FIXED64, FIXED32):
        end = start + (8 if kind == FIXED64 else 4)
    else:
        raise ValueError("body: not a protobuf message")
    if end > len(message):
        raise ValueError("body: a protobuf message that is cut off")
    return tag >> 3, kind, start, end


def _varint(message: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number at *at*, and where it ends."""
    value = shift = 0
    for place in range(at, min(at + MAX_VARINT, len(message))):
        byte = message[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise ValueError("body: a protobuf message that is cut off")


# ---------------------------------------------------------------- writing


def varint(value: int) -> bytes:
    """Return *value*, which is not negative, as protobuf writes it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def delimited(number: int, size: int) -> bytes:
    """Return what precedes *size* bytes of content in the field *number*."""
    return varint(number << 3 | LENGTH) + varint(size)


def error_piece(text: str) -> bytes:
    """Return the ModelStreamInferResponse that reports an error."""
    content = text.encode()
    return delimited(ERROR_MESSAGE, len(content)) + content


def is_error(piece: bytes) -> bool:
    """Whether the ModelStreamInferResponse *piece* reports an error."""
    return piece[:1] == ERROR_TAG


def named(error: bytes, id_: str) -> bytes:
    """Return the piece *error* with the id of the request that failed."""
    content = id_.encode()
    return error + response_piece(delimited(RESPONSE_ID, len(content)) + content)


def response_piece(response: bytes) -> bytes:
    """Return the ModelStreamInferResponse with the ModelInferResponse *response*."""
    return delimited(INFER_RESPONSE, len(response)) + response


def framed(piece: bytes | Sequence[bytes | memoryview]) -> bytes:
    """Return a message of a stream from a worker: its length comes first, in 4 bytes."""
    content = piece if isinstance(piece, bytes) else b"".join(piece)
    return len(content).to_bytes(4, "big") + content
