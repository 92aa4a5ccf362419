# SPDX-License-Identifier: Apache-2.0
"""What schemathesis is told before it runs: how msgpack is written, and what no schema can say."""

import re

import msgpack
import schemathesis
from schemathesis import Case, DeserializationContext, GenerationMode, HookContext, Response
from schemathesis import SerializationContext as Context

MSGPACK = ("application/msgpack", "application/x-msgpack", "application/vnd.msgpack")
JSON = "application/json"


@schemathesis.serializer(*MSGPACK)
def pack(context: Context, value: object) -> bytes:
    """Write a generated value."""
    return value if isinstance(value, bytes) else msgpack.packb(value)


@schemathesis.deserializer(*MSGPACK)
def unpack(context: DeserializationContext, response: Response) -> object:
    """Read an answer."""
    return msgpack.unpackb(response.content)


@schemathesis.hook
def filter_case(context: HookContext, case: Case) -> bool:
    """Leave out what no schema can say.

    A file or a form that a model takes cannot be made of a schema. Who does not know a header
    ignores it (RFC 9110 5.1), so a request with one more is none that should be refused. And
    who gives the server no time gets a 504.
    """
    headers = {name.lower(): str(value) for name, value in (case.headers or {}).items()}
    if any("unknown-property" in name for name in headers):
        return False
    if re.fullmatch("[0-9]{1,3}", headers.get("x-request-timeout-ms", "")):
        return False
    mode = case.meta.generation.mode if case.meta else None
    if mode != GenerationMode.POSITIVE and case.path.endswith(":predict"):
        return False  # wrong inputs are tried at the native routes, whose schemas these are
    if mode == GenerationMode.POSITIVE and case.path.endswith("/infer"):
        return False  # the shape of a tensor says how much data it has
    if case.media_type in MSGPACK and not can_be_packed(case.body):
        return False
    return mode != GenerationMode.POSITIVE or case.media_type in (None, JSON, *MSGPACK)


def can_be_packed(value: object) -> bool:
    """Whether msgpack can hold *value*: its integers have at most 64 bits."""
    try:
        msgpack.packb(value)
    except (OverflowError, TypeError):
        return False
    return True
