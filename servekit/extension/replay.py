# SPDX-License-Identifier: Apache-2.0
"""A request that was in a worker when it died, as a command or a test that sends it again."""

from __future__ import annotations

import base64
import pprint
import shlex
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from servekit.ipc.crash_reports import CrashReport, HeldRequest

__all__ = ["ReplayForm", "replay_text"]

ReplayForm = Literal["curl", "pytest"]

TEST = '''\
"""A worker of {model} ended with this request: {cause}.

Run it with: pytest {file}
MODEL=... tests another archive or model directory.
"""

{imports}

from servekit.testing import ServedModel

MODEL = os.environ.get("MODEL", {source!r})
HEADERS = {headers}
{body}


def test_the_worker_survives():
    with ServedModel({served}) as server:
        server.wait_ready()
        response = {call}

        assert response.status < 500, server.log.text
'''
MISSING = "# the server keeps bodies only with --keep-bodies: save this one as the file {name}"
BODY_FILE = "body"


def replay_text(
    report: CrashReport,
    request: HeldRequest,
    form: ReplayForm,
    url: str = "http://127.0.0.1:8080",
) -> str:
    """Return *request* of *report* as a command of curl, or as a file of pytest.

    The text holds the body of the request if the server has kept it.

    :param url: of the server that curl asks.
    """
    return _curl(request, url) if form == "curl" else _pytest(report, request)


def _curl(request: HeldRequest, url: str) -> str:
    body, send, before = request.body, "", ""
    if request.body_bytes and body is None:
        before = MISSING.format(name=BODY_FILE) + "\n"
        send = f"--data-binary @{BODY_FILE}"
    elif body and (text := _text_of(body)) is not None and not text.startswith("@"):
        send = f"--data-binary {shlex.quote(text)}"
    elif body:
        before = f"printf %s {base64.b64encode(body).decode()} | base64 -d | "
        send = "--data-binary @-"
    fields = [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in request.headers.items()]
    command = [f"curl -X {request.method}", shlex.quote(url.rstrip("/") + request.target)]
    return before + " ".join([*command, *fields, *filter(None, [send])]) + "\n"


def _pytest(report: CrashReport, request: HeldRequest) -> str:
    path, headers = request.target, dict(request.headers)
    content_type = headers.pop("content-type", "")
    call = f"server.post({path!r}, BODY, {content_type!r}, HEADERS)"
    if request.method == "GET":
        call = f"server.get({path!r})"
    body = _body_line(request)
    return TEST.format(
        imports=_imports(body),
        model=report.model,
        cause=_in_docstring(report.cause),
        file=f"test_crash_{report.number}.py",
        source=report.source,
        headers=pprint.pformat(headers, width=90),
        body=body,
        served=f'f"{report.model}={{MODEL}}"',
        call=call,
    )


def _imports(body_line: str) -> str:
    first = ["import base64"] if body_line.startswith("BODY = base64.") else []
    last = ["from pathlib import Path"] if "\nBODY = Path(" in body_line else []
    return "\n".join([*first, "import os", *last])


def _body_line(request: HeldRequest) -> str:
    body = request.body
    if body is None and request.body_bytes:
        comment = MISSING.format(name=BODY_FILE)
        return f"{comment}\nBODY = Path({BODY_FILE!r}).read_bytes()"
    if body and _text_of(body) is None:
        return f"BODY = base64.b64decode({base64.b64encode(body).decode()!r})"
    return f"BODY = {body or b''!r}"


def _text_of(body: bytes) -> str | None:
    """Return *body* as text that every terminal can show, or ``None``."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\n\t" for char in text) else None


def _in_docstring(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', "'")
