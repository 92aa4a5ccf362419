# SPDX-License-Identifier: Apache-2.0
"""A request that ``Server.write_snippets`` writes as code."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = ["RequestToWrite"]

HeaderName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]+\Z")]
HeaderValue = Annotated[str, Meta(pattern=r"^[ -~]*\Z")]


class RequestToWrite(Struct, kw_only=True, forbid_unknown_fields=True):
    """One request to a model: its input is a value, a file, or a form with files."""

    server: str  #: URL of the server, as the reader of the code reaches it
    path: str  #: one of the model's
    version: str = ""  #: that answers; "" leaves it to the server
    value: Any = None  #: the input, or the fields of a form that are not files
    file: str = ""  #: name of a file that is the whole body
    content_type: str = ""  #: of that file
    files: dict[str, str] | None = None  #: field to file name; ``None``: it is not a form
    streams: bool = False  #: the outputs are shown one by one
    instances: bool = False  #: *value* is a whole body with several inputs
    output: Any | UnsetType = UNSET  #: what a test expects, if that is known
    needs_token: bool = False  #: the code reads a token from the environment
    accept: str = ""  #: media type of the response; "": any
    #: further headers; ``None``: a secret, which the code reads from the environment
    headers: dict[HeaderName, HeaderValue | None] = {}
    query: dict[str, str | None] = {}  #: parameters of the query, in the same way
