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
from servekit.ipc.table import path_of_version

__all__ = ["write_all"]


def write_all(described: PathDescription, call: RequestToWrite) -> dict[str, str]:
    """Return the code for *call*, a request to the path *described*, by format."""
    style, is_file = described.style, bool(call.file)
    if call.instances:  # the whole body is given, so the whole body of the response is shown
        style = ResponseStyle(is_bare=True, stream=style.stream)
    request = SnippetRequest(
        server=call.server.rstrip("/"),
        path=path_of_version(described.name, call.version, call.path)
        if call.version
        else call.path,
        sample=_sample(described, call),
        file=described.answer_file,
        streams=call.streams,
        style=style,
        output=call.output,
        needs_token=call.needs_token,
    )
    cannot = {"python", "pytest"} if is_file and call.streams else set()  # the client has no way
    return {name: write(request) for name, write in FORMATS.items() if name not in cannot}


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
