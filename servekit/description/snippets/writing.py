# SPDX-License-Identifier: Apache-2.0
"""One request in every format, for a page where people have filled it in."""

import json
from collections.abc import Mapping

from servekit.description.forms import parts
from servekit.description.interface import PathDescription
from servekit.description.samples import SampleFile, SampleForm, SampleValue
from servekit.description.snippets import FORMATS, SnippetRequest
from servekit.extension.snippets import RequestToWrite
from servekit.ipc.response_style import ResponseStyle
from servekit.ipc.stream_formats import EVENT_STREAM, STREAM_FORMATS
from servekit.ipc.table import path_of_version

__all__ = ["write_all"]


def write_all(described: PathDescription, call: RequestToWrite) -> dict[str, str]:
    """Return the code for *call*, a request to the path *described*, by format."""
    style, is_file = described.style, bool(call.file)
    if call.instances:  # the whole body is given, so the whole body of the response is shown
        style = ResponseStyle(is_bare=True, stream=style.stream)
    streams = call.streams and (call.accept or EVENT_STREAM) in STREAM_FORMATS
    request = SnippetRequest(
        server=call.server.rstrip("/"),
        path=path_of_version(described.name, call.version, call.path)
        if call.version
        else call.path,
        sample=_sample(described, call),
        file=_file(call.accept) if call.accept else described.answer_file,
        streams=streams,
        style=style,
        output=call.output,
        needs_token=call.needs_token,
        accept=call.accept,
        headers=call.headers,
        query=call.query,
    )
    is_form = isinstance(request.sample, SampleForm) and request.answers_bytes
    # the client has no way to send these
    cannot = {"python", "pytest"} if is_form or (is_file and streams) else set()
    return {name: write(request) for name, write in FORMATS.items() if name not in cannot}


def _file(media_type: str) -> str:
    """Return a name for the file of a response of *media_type*; "" for text."""
    kind, _, subtype = media_type.partition("/")
    is_readable = kind == "text" or media_type in STREAM_FORMATS or subtype.endswith("json")
    suffix = "bin" if subtype == "octet-stream" else subtype.removeprefix("x-")
    return "" if is_readable else f"prediction.{suffix}"


def _sample(
    described: PathDescription, call: RequestToWrite
) -> SampleFile | SampleForm | SampleValue:
    if call.file:
        return SampleFile(call.file, call.content_type or "application/octet-stream")
    if call.files is None:
        return SampleValue(call.value)
    known = {part.name: part for part in parts(described)}
    values = call.value if isinstance(call.value, Mapping) else {}
    texts = {
        name: _text(value, is_json=name in known and known[name].is_json)
        for name, value in values.items()
    }
    lists = frozenset(name for name in call.files if name in known and known[name].is_list)
    return SampleForm(call.files, dict(values), texts, lists)


def _text(value: object, *, is_json: bool) -> str:
    """Return *value* as the text of a part; a string stays as it is unless it would be a number."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    return json.dumps(value) if is_json else value
