# SPDX-License-Identifier: Apache-2.0
"""A request that ``Server.write_snippets`` writes as code."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

__all__ = ["RequestToWrite"]


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
