# SPDX-License-Identifier: Apache-2.0
"""``servekit status``: is the server that runs here healthy, and how is each model?"""

import argparse
import json
from typing import Any

from servekit.cli import running_server
from servekit.cli.output.tables import table
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND
from servekit.extension.commands import Run

__all__ = ["model_row", "status"]

EPILOG = """\
It asks the server over the private socket in its run directory, as the user of the server.
Exit status: 0 if the server is healthy according to /ping; 1 if it is unhealthy or not running.

examples:
  servekit status                           of the only running server
  servekit status --json
  servekit status --run-dir /run/servekit --pid 4711
"""
HEAD = ("model", "version", "state", "replicas", "waiting", "restarts")
READY = "ready"
SERVING = "serving"  #: a replica that takes tasks


def status(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    running_server.add_arguments(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print the health and a line for each model.

    :raises NoServer: no such server runs, or it does not answer.
    """
    server = running_server.find_server(parsed)
    _, ping = server.ask("/ping")
    reasons = ping.get("reasons", [])
    models = server.ask("/models")[1]["models"]
    if parsed.json:
        facts = {"pid": server.pid, "run_dir": str(server.run_dir), "is_healthy": not reasons}
        print(json.dumps({**facts, "reasons": reasons, "models": models}, indent=2))
    else:
        print(f"pid {server.pid}, {server.run_dir}: {'un' if reasons else ''}healthy")
        print("".join(f"  {reason}\n" for reason in reasons))
        print(table(HEAD, [model_row(model) for model in models]))
    return PROBLEM_FOUND if reasons else OK


def model_row(model: dict[str, Any]) -> list[object]:
    """Return the line of one model."""
    replicas = model["replicas"]
    ready = sum(replica["state"] == SERVING for replica in replicas)
    state = READY if model["is_ready"] else model["reason"].partition("\n")[0] or "not ready"
    restarts = sum(replica["restarts"] for replica in replicas)
    waiting = f"{model['waiting']}/{model['capacity']}"
    return [model["name"], model["version"], state, f"{ready}/{len(replicas)}", waiting, restarts]
