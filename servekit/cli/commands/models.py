# SPDX-License-Identifier: Apache-2.0
"""``servekit models``: the models of the server that runs here, worker by worker."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from servekit.cli import running_server
from servekit.cli.output.tables import table
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND
from servekit.extension.commands import Run

__all__ = ["models"]

EPILOG = """\
It asks the server over the private socket in its run directory, as the user of the server.

examples:
  servekit models                           all replicas of all models
  servekit models --model digits --json
  servekit models --run-dir /run/servekit --pid 4711
"""
HEAD = ("model", "version", "replica", "state", "pid", "restarts", "reason")


def models(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    running_server.add_arguments(parser)
    parser.add_argument(
        "--model", metavar="NAME", help="only this model; status 1 if there is no such model"
    )
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print a line for each replica.

    :raises NoServer: no such server runs, or it does not answer.
    """
    every = running_server.find_server(parsed).ask("/models")[1]["models"]
    found = [model for model in every if parsed.model in (None, model["name"])]
    if parsed.json:
        print(json.dumps(found, indent=2))
    elif found:
        print(table(HEAD, [row for model in found for row in rows(model)]))
    else:
        served = ", ".join(model["name"] for model in every)
        print(f"no model {parsed.model!r}; served: {served}" if served else "no models")
    return OK if found or parsed.model is None else PROBLEM_FOUND


def rows(model: dict[str, Any]) -> Iterator[list[object]]:
    """Yield the line of each replica; of a model without any, its own."""
    head = [model["name"], model["version"]]
    if not model["replicas"]:
        yield [*head, "-", "not loaded", "-", 0, _first_line(model["reason"])]
    for replica in model["replicas"]:
        index = "/".join(filter(None, (replica.get("stage"), str(replica["index"]))))
        reason = _first_line(replica["reason"] or model["reason"])
        pid = replica["pid"] or "-"
        yield [*head, index, replica["state"], pid, replica["restarts"], reason]


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
