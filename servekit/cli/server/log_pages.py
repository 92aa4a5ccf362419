# SPDX-License-Identifier: Apache-2.0
"""Reads the log of a running server, page by page, and of the one that follows it."""

import argparse
import sys
from collections.abc import Iterator
from time import sleep
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from servekit.cli.server import finding
from servekit.cli.server.connection import ManagedServer, NoServer, RequestRefused
from servekit.ipc.kept_log import LogEntry, LogFilter

__all__ = ["server_log"]

WAIT_S: Final = 10  #: for each request of ``--follow``
RETRY_S: Final = 0.5  #: while no server runs
ALL: Final = 1_000_000


def server_log(parsed: argparse.Namespace, wanted: LogFilter, most: int) -> Iterator[LogEntry]:
    """Yield the last *most* entries, and with ``--follow`` those that come, for ever.

    :raises NoServer: no such server runs at first, or the one of ``--pid`` has ended.
    :raises RequestRefused: it refuses the request, or has neither lines nor a model of this name.
    """
    query: dict[str, Any] = {"model": wanted.model, "level": wanted.level, "since": wanted.since}
    server = finding.find_server(parsed)
    page = server.get(f"/logs?{urlencode(query | {'limit': most})}")
    yield from _entries(page)
    if wanted.model and not page["lines"]:
        _require_known(wanted.model, server, is_followed=parsed.follow)
    complaint = ""
    while parsed.follow:
        query |= {"after": page["next"], "run": page["run"], "limit": ALL, "wait": WAIT_S}
        try:
            page = server.get(f"/logs?{urlencode(query)}")
        except NoServer as error:
            if parsed.pid is not None:
                raise
            complaint = _complain(complaint, str(error))
            sleep(RETRY_S)
            try:
                server = finding.find_server(parsed)
            except NoServer as error:
                complaint = _complain(complaint, str(error))
        else:
            complaint = ""
            yield from _entries(page)


def _entries(page: dict[str, Any]) -> list[LogEntry]:
    return msgspec.convert(page["lines"], list[LogEntry])


def _require_known(model: str, server: ManagedServer, *, is_followed: bool) -> None:
    """Say that the server has no such model: its name may be misspelt, or it comes later.

    :raises RequestRefused: it has none, and the log is not followed.
    """
    names = sorted(row["name"] for row in server.get("/models")["models"])
    if model in names:
        return
    text = f"no lines; no model is called {model!r}; models: {', '.join(names) or 'none'}"
    if not is_followed:
        raise RequestRefused(text)
    sys.stderr.write(f"servekit: {text}\n")


def _complain(last: str, text: str) -> str:
    """Say once why nothing comes."""
    if not last:
        sys.stderr.write(f"servekit: {text}; waiting for a server\n")
    return last or text
