# SPDX-License-Identifier: Apache-2.0
"""``servekit top``: what each version of each model does, second by second."""

import argparse
import json
import sys
from collections.abc import Sequence
from time import sleep

import msgspec
from servekit_archiver.cli.output import human_bytes, human_seconds

from servekit.cli.output.live_text import LiveText
from servekit.cli.output.tables import table
from servekit.cli.parsing.exit_status import OK
from servekit.cli.server import finding
from servekit.cli.server.gpus import Gpu, Gpus
from servekit.cli.server.rates import VersionRates, observe, rates
from servekit.extension.commands import Run
from servekit.settings.arguments import duration

__all__ = ["top"]

EPILOG = f"""\
On a terminal the table is drawn again every --interval seconds until Ctrl-C; elsewhere it is
printed once, after one interval. Memory is that of the workers; pages that they share count for
each. GPUs of this machine are listed below the models if nvidia-ml-py is installed.

{finding.ABOUT}
examples:
  servekit top
  servekit top --interval 10
  servekit top --json                       once, for a program
"""
HEAD = (
    *("model", "version", "replicas", "requests/s", "5xx/s", "p50", "p99", "waiting"),
    *("CPU", "memory"),
)
GPU_HEAD = ("GPU", "name", "memory", "of", "busy", "models")


def top(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    finding.add_arguments(parser)
    parser.add_argument("--interval", type=duration, default=2.0, metavar="TIME", help="default 2s")
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print or draw the table.

    :raises NoServer: no such server runs, or it does not answer.
    :raises RequestRefused: the server refuses the request.
    """
    server = finding.find_server(parsed)
    is_live = sys.stdout.isatty() and not parsed.json
    text, gpus = LiveText(sys.stdout), Gpus() if server.pid is not None else None
    before = observe(server)
    try:
        while True:
            sleep(parsed.interval)
            after = observe(server, gpus.read() if gpus else ())
            found, before = rates(before, after), after
            if not is_live:
                print(_json(found) if parsed.json else _table(found, after.gpus))
                return OK
            text.draw(_table(found, after.gpus).splitlines())
    except KeyboardInterrupt:  # the way to end it
        return OK


def _json(found: Sequence[VersionRates]) -> str:
    return json.dumps(msgspec.to_builtins(found), indent=2)


def _table(found: Sequence[VersionRates], gpus: Sequence[Gpu]) -> str:
    shown = table(HEAD, [_cells(each) for each in found])
    if not gpus:
        return shown
    return f"{shown}\n\n{table(GPU_HEAD, [_gpu_cells(gpu, found) for gpu in gpus])}"


def _gpu_cells(gpu: Gpu, found: Sequence[VersionRates]) -> list[object]:
    users = [f"{each.model}/{each.version}" for each in found if gpu.index in each.gpus]
    return [
        gpu.index,
        gpu.name,
        human_bytes(gpu.used_bytes),
        human_bytes(gpu.total_bytes),
        "-" if gpu.busy_percent is None else f"{gpu.busy_percent} %",
        ", ".join(users) or "-",
    ]


def _cells(each: VersionRates) -> list[object]:
    return [
        each.model,
        each.version,
        f"{each.serving}/{each.replicas}",
        f"{each.requests_per_s:.1f}",
        f"{each.errors_per_s:.1f}",
        "-" if each.p50_s is None else human_seconds(each.p50_s),
        "-" if each.p99_s is None else human_seconds(each.p99_s),
        each.waiting,
        f"{100 * each.cpu:.0f} %",
        human_bytes(each.memory_bytes),
    ]
