# SPDX-License-Identifier: Apache-2.0
"""``servekit dashboards``: writes the files."""

import argparse
import json
import re
from pathlib import Path

from servekit.extension import draft_directory
from servekit.extension.commands import Run
from servekit_dashboards.files import Targets, files

__all__ = ["configure"]

EPILOG = """\
The command writes to DIR:

  dashboards/          three dashboards of Grafana: fleet, model, streams
  rules/servekit.yml   alerts and recording rules of Prometheus
  prometheus.yml       a configuration of Prometheus that uses them
  grafana/             files that provision Grafana with all this
  kubernetes.yaml      the same for the operator of Prometheus and Grafana's sidecar

examples:
  servekit dashboards monitoring
  servekit dashboards monitoring --target gpu-1:8080 gpu-2:8080
  promtool check config monitoring/prometheus.yml
"""
JOB = re.compile(r"[A-Za-z0-9_.-]+")
TARGET = re.compile(r"[^\s\"/]+:\d+")


def configure(parser: argparse.ArgumentParser) -> Run:
    """Add the arguments, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("directory", type=Path, metavar="DIR", help="new or empty")
    parser.add_argument(
        "--target",
        nargs="+",
        type=target,
        default=["127.0.0.1:8080"],
        metavar="HOST:PORT",
        help="servers that prometheus.yml scrapes (default: 127.0.0.1:8080)",
    )
    parser.add_argument(
        "--job",
        type=job,
        default="servekit",
        help="name of the job in Prometheus, which alerts and dashboards use (default: servekit)",
    )
    parser.add_argument(
        "-f", "--force", action="store_true", help="overwrite files of the same name"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    return run


def target(text: str) -> str:
    """Check the address of a server."""
    if not TARGET.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return text


def job(text: str) -> str:
    """Check the name of a job."""
    if not JOB.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not letters, digits, '.', '_' and '-'")
    return text


def run(parsed: argparse.Namespace) -> int:
    """Write the files, and print what to do with them.

    :raises StartupError: the directory is not empty, or cannot be written to.
    """
    directory: Path = parsed.directory
    texts = files(Targets(parsed.job, parsed.target))
    with draft_directory(directory, force=parsed.force) as draft:
        for path, text in texts.items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_text(text, encoding="utf-8")
    if parsed.json:
        print(json.dumps({"directory": str(directory), "files": sorted(texts)}, indent=2))
    else:
        print("\n".join(f"{directory / path}" for path in texts))
    return 0
