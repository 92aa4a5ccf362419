# SPDX-License-Identifier: Apache-2.0
"""``servekit status``: is the server that runs here healthy, and how is each model?"""

import argparse
import json
from typing import Any

from servekit.cli.output.tables import table
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND
from servekit.cli.server import finding
from servekit.cli.server.connection import ManagedServer
from servekit.extension.commands import Run
from servekit.ipc.operations import RUNNING
from servekit.ipc.table import SERVING

__all__ = ["model_row", "status"]

EPILOG = f"""\
{finding.ABOUT}
Exit status: 0 if the server is healthy according to /ping; 1 if it is unhealthy or not running.

examples:
  servekit status                           of the only running server
  servekit status --json
  servekit status --run-dir /run/servekit --pid 4711
  servekit status --server https://models.example:8081
"""
HEAD = ("model", "version", "state", "replicas", "waiting", "restarts")
READY = "ready"
OPERATIONS = ("operation", "kind", "model", "state", "step or error")


def status(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    finding.add_arguments(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print the health, a line for each model, and the operations of the last minutes.

    :raises NoServer: no such server runs, or it does not answer.
    :raises RequestRefused: the server refuses the request.
    """
    server = finding.find_server(parsed)
    models = server.get("/models")["models"]
    operations = server.get("/operations")["operations"]
    _, ping = server.ask("/ping")
    reasons = ping.get("reasons", [])
    if parsed.json:
        facts = {**_place(server), "is_healthy": not reasons, "reasons": reasons}
        print(json.dumps({**facts, "models": models, "operations": operations}, indent=2))
    else:
        where = f"pid {server.pid}, {server.run_dir}" if server.run_dir else server.address
        print(f"{where}: {'un' if reasons else ''}healthy")
        print("".join(f"  {reason}\n" for reason in reasons))
        print(table(HEAD, [model_row(model) for model in models]))
        if operations:
            print(f"\n{table(OPERATIONS, [_operation_row(each) for each in operations])}")
    return PROBLEM_FOUND if reasons else OK


def _place(server: ManagedServer) -> dict[str, Any]:
    """Return what names the server, for programs."""
    if server.run_dir is None:
        return {"server": server.address}
    return {"pid": server.pid, "run_dir": str(server.run_dir)}


def _operation_row(row: dict[str, Any]) -> list[object]:
    steps = [step["name"] for step in row["steps"]]
    step = steps[-1] if steps and row["state"] == RUNNING else row["error"].partition("\n")[0]
    return [row["id"], row["kind"], row["model"], row["state"], step]


def model_row(model: dict[str, Any]) -> list[object]:
    """Return the line of one model."""
    replicas = model["replicas"]
    ready = sum(replica["state"] == SERVING for replica in replicas)
    state = READY if model["is_ready"] else model["reason"].partition("\n")[0] or "not ready"
    restarts = sum(replica["restarts"] for replica in replicas)
    waiting = f"{model['waiting']}/{model['capacity']}"
    return [model["name"], model["version"], state, f"{ready}/{len(replicas)}", waiting, restarts]
