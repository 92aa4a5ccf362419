# SPDX-License-Identifier: Apache-2.0
"""Has a server carry out an operation, and shows its steps until it ends."""

import argparse
import json
import sys
from collections.abc import Mapping
from time import sleep, time
from typing import Any, Final, Protocol

from servekit.cli.output.live_text import LiveText
from servekit.cli.parsing.exit_status import INTERRUPTED, OK, PROBLEM_FOUND
from servekit.cli.server import finding
from servekit.cli.server.connection import ManagedServer, NoServer
from servekit.errors import StartupError
from servekit.ipc.operations import DONE, FAILED, RUNNING

__all__ = ["ABOUT", "CommandFailed", "add_arguments", "operate"]

#: for the help of every command
ABOUT: Final = f"""\
It shows each step until the operation ends; Ctrl-C ends the command, not the operation.
{finding.ABOUT}
Exit status: 0 if the operation succeeds; 1 if it fails, and the server keeps serving what it served
before; 130 after Ctrl-C.
"""
POLL_S: Final = 0.25
TRIES: Final = 20  #: polls in a row without an answer: a front-end may be replaced meanwhile
MARKS: Final = {DONE: "✓", FAILED: "✗"}

Row = Mapping[str, Any]


class CommandFailed(StartupError):
    """The server could not carry out an operation."""

    exit_status = PROBLEM_FOUND


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command that changes something."""
    finding.add_arguments(parser)
    parser.add_argument(
        "--no-wait", action="store_true", help="return as soon as the server has begun"
    )


def operate(
    parsed: argparse.Namespace, method: str, path: str, body: Mapping[str, Any] | None = None
) -> int:
    """Ask for the operation, follow it, and return the exit status.

    :raises NoServer: no server runs, or it does not answer any more.
    :raises RequestRefused: the server refuses the request.
    :raises CommandFailed: it failed.
    """
    server, row = finding.find_server(parsed), None
    try:
        row = _begin(server, method, path, body)
        if not parsed.no_wait:
            row = _follow(server, row, _display(parsed))
    except KeyboardInterrupt:
        which = f"operation {row['id']}" if row else "the operation"
        command = f"servekit status{finding.given_options(parsed)}"
        sys.stderr.write(f"servekit: {which} continues; `{command}` shows its state\n")
        return INTERRUPTED
    if parsed.json:
        print(json.dumps(row, indent=2))
    elif row["state"] != FAILED:
        print(_result(row))
    if row["state"] == FAILED:
        raise CommandFailed(f"{_name(row)}: {row['kind']} failed: {row['error']}")
    return OK


def _begin(server: ManagedServer, method: str, path: str, body: Mapping[str, Any] | None) -> Row:
    """Return the row of the operation, which may have failed already.

    :raises RequestRefused: it has not begun.
    """
    status, answer = server.ask(path, method, body)
    row: Row = answer
    if status >= 400:
        if "operation" not in answer:
            server.check(status, answer)
        row = answer["operation"]
    return row


class StepDisplay(Protocol):
    """Shows the steps of an operation while they run."""

    def show(self, row: Row) -> None:
        """Show how far the operation is now."""


class NoSteps:
    """Shows nothing: the result is for a program."""

    def show(self, row: Row) -> None:
        """Show nothing."""


class PrintedSteps:
    """A line on stderr for each step that has ended."""

    def __init__(self) -> None:
        """Nothing is printed yet."""
        self._printed = 0

    def show(self, row: Row) -> None:
        """Print the steps that have ended since."""
        ended = [step for step in row["steps"] if step["state"] != RUNNING]
        for step in ended[self._printed :]:
            sys.stderr.write(f"{row['model'] or row['kind']}: {_described(step)}\n")
        self._printed = max(self._printed, len(ended))


class DrawnSteps:
    """All steps on the terminal, with a spinner for those that run."""

    def __init__(self) -> None:
        """Draw on stderr, so that stdout has the result alone."""
        self._text = LiveText(sys.stderr)

    def show(self, row: Row) -> None:
        """Draw the steps again."""
        frame = self._text.frame
        self._text.draw(
            [f"{MARKS.get(step['state'], frame)} {_described(step)}" for step in row["steps"]]
        )


def _display(parsed: argparse.Namespace) -> StepDisplay:
    if parsed.json:
        return NoSteps()
    return DrawnSteps() if sys.stderr.isatty() else PrintedSteps()


def _follow(server: ManagedServer, row: Row, display: StepDisplay) -> Row:
    """Show the operation until it ends; return its last row."""
    failures = 0
    display.show(row)
    while row["state"] == RUNNING:
        try:
            row = server.get(f"/operations/{row['id']}?wait={POLL_S}")
        except NoServer:
            failures += 1
            if failures == TRIES:
                raise
            sleep(POLL_S)
        else:
            failures = 0
            display.show(row)
    return row


def _described(step: Row) -> str:
    took_s = (step["ended"] or time()) - step["began"] if step["began"] else 0.0
    ending = {RUNNING: "", DONE: " done", FAILED: " failed"}[step["state"]]
    detail = f": {step['detail']}" if step["detail"] else ""
    return f"{step['name']}{ending} {took_s:.1f} s{detail}"


def _result(row: Row) -> str:
    if row["state"] == RUNNING:
        return f"{_name(row)}: {row['kind']} has begun: operation {row['id']}"
    return f"{_name(row)}: {row['kind']} done in {row['ended'] - row['began']:.1f} s"


def _name(row: Row) -> str:
    """Return the model and the version, as far as they are known."""
    return "/".join(filter(None, (row["model"], row["version"]))) or "new model"
