# SPDX-License-Identifier: Apache-2.0
"""``servekit models``: the models of a running server, replica by replica, or one in detail."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from servekit_archiver.cli.output import human_bytes

from servekit.cli.output.tables import table
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND
from servekit.cli.server import finding
from servekit.cli.server.connection import model_path
from servekit.extension.commands import Run
from servekit.ipc.table import SERVING

__all__ = ["models"]

EPILOG = f"""\
{finding.ABOUT}
examples:
  servekit models                           all replicas of all models
  servekit models --model digits --json
  servekit models show digits               versions, traffic, and where each setting comes from
  servekit models --run-dir /run/servekit --pid 4711
"""
HEAD = ("model", "version", "replica", "state", "pid", "restarts", "memory", "reason")
VERSIONS = ("version", "state", "replicas", "answers", "aliases")
SETTINGS = ("setting", "value", "source")


def models(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    finding.add_arguments(parser)
    parser.add_argument(
        "--model", metavar="NAME", help="only this model; status 1 if there is no such model"
    )
    parser.add_argument("show", nargs="?", choices=["show"], help="one model in detail: show MODEL")
    parser.add_argument("name", nargs="?", metavar="MODEL", help="the model to show")
    return lambda parsed: run(parser, parsed)


def run(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> int:
    """Print a line for each replica, or one model in detail.

    :raises NoServer: no such server runs, or it does not answer.
    :raises RequestRefused: there is no such model, or the server refuses the request.
    """
    if parsed.show and not parsed.name:
        parser.error("show needs the name of a model")
    server = finding.find_server(parsed)
    if parsed.show:
        shown = server.get(model_path(parsed.name))
        print(json.dumps(shown, indent=2) if parsed.json else "\n".join(details(shown)))
        return OK
    every = server.get("/models")["models"]
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
    """Yield the line of each replica; of a version without any, its own."""
    for version in (model, *model["versions"]):
        head = [model["name"], version["version"]]
        state = "asleep" if version["is_asleep"] else "not loaded"
        if not version["replicas"]:
            yield [*head, "-", state, "-", 0, "-", _first_line(version["reason"])]
        for replica in version["replicas"]:
            yield [*head, *_replica_cells(replica, version["reason"])]


def _replica_cells(replica: dict[str, Any], reason: str) -> list[object]:
    index = "/".join(filter(None, (replica.get("stage"), str(replica["index"]))))
    memory = "-" if replica["memory_bytes"] is None else human_bytes(replica["memory_bytes"])
    why = _first_line(replica["reason"] or reason)
    pid = replica["pid"] or "-"
    return [index, replica["state"], pid, replica["restarts"], memory, why]


def details(model: dict[str, Any]) -> Iterator[str]:
    """Yield the paragraphs that describe one model."""
    yield f"{model['name']}/{model['version']}  {model['description']}".rstrip()
    yield f"waiting {model['waiting']}/{model['capacity']}\n"
    versions = [model, *model["versions"]]
    yield table(VERSIONS, [_version_cells(model, version) for version in versions])
    traffic = model["traffic"]
    if traffic["sticky"]:
        yield f"the header {traffic['sticky']} chooses the version"
    if traffic["mirror"]:
        yield f"{traffic['mirror']} gets copies of {traffic['mirror_percent']} % of the requests"
    yield f"\n{table(HEAD[1:], [row[1:] for row in rows(model)])}"
    if model["settings"]:
        cells = [[row["name"], _value(row["value"]), row["source"]] for row in model["settings"]]
        yield f"\n{table(SETTINGS, cells)}"


def _version_cells(model: dict[str, Any], version: dict[str, Any]) -> list[object]:
    name, traffic = version["version"], model["traffic"]
    aliases = [alias for alias, target in traffic["aliases"].items() if target == name]
    total = sum(traffic["weights"].values())
    share = 100 * traffic["weights"].get(name, 0) / total if total else 100 * (version is model)
    serving = sum(replica["state"] == SERVING for replica in version["replicas"])
    state = "ready" if version["is_ready"] else "not ready"
    state = "asleep" if version["is_asleep"] else state
    replicas = f"{serving}/{len(version['replicas'])}"
    return [name, state, replicas, f"{share:g} %", ", ".join(aliases) or "-"]


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
