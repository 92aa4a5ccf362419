# SPDX-License-Identifier: Apache-2.0
"""``servekit mms``: the arguments of ``mxnet-model-server``. It becomes ``servekit start``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from servekit.errors import StartupError
from servekit.settings.arguments import free_port, whole
from servekit_mms import hooks
from servekit_mms.log_file import LEVELS, rotation_of
from servekit_mms.sinks import CLOUDWATCH, CSV, LOG

if TYPE_CHECKING:
    from servekit.extension.commands import Run

__all__ = ["NamedArchive", "configure", "model_of", "start_arguments", "variables"]

EPILOG: Final = """\
examples:
  servekit mms --models lstm_ptb=lstm_ptb.model
  servekit mms --models a=a.model b=/srv/b --port 9000 --metrics-write-to csv
  servekit mms --models lstm_ptb=lstm_ptb.model --gen-api python

Everything else is a setting of servekit, as a variable: SERVEKIT_REPLICAS=2.
"""
FILE: Final = "file://"
OTHER_MODELS: Final = (".onnx", ".pb2")


class NamedArchive(NamedTuple):
    """One ``NAME=LOCATION``."""

    name: str
    location: str


def configure(parser: argparse.ArgumentParser) -> Run:
    """Add the arguments of ``mxnet-model-server``; return what runs the command."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add(
        "--models",
        nargs="+",
        required=True,
        type=model_of,
        metavar="NAME=LOCATION",
        help="archives or directories to serve, each at /NAME/predict; URLs need servekit-fsspec",
    )
    add(
        "--service",
        type=Path,
        metavar="FILE",
        help="service file for all models, in place of those in the archives",
    )
    add(
        "--gen-api",
        metavar="LANGUAGE",
        help="write build/openapi.json, and a client with an installed generator; do not serve",
    )
    add("--port", type=free_port, default=8080, help="default: 8080")
    add("--host", default="127.0.0.1", help="default: 127.0.0.1")
    add("--gpu", type=whole, metavar="ID", help="given to the services; default: they use the CPU")
    add("--log-file", default="mms_app.log", help='default: mms_app.log; "" for none')
    add(
        "--log-rotation-time",
        default="1 H",
        type=_rotation,
        metavar="INTERVAL",
        help="when the log file is rotated: '30 M', '1 H', 'midnight', 'W0'; default: '1 H'",
    )
    add("--log-level", default="INFO", type=str.upper, choices=list(LEVELS), help="default: INFO")
    add("--metrics-write-to", default=LOG, choices=[LOG, CSV, CLOUDWATCH],
        help=f"default: {LOG}; the others write files below metrics/")  # fmt: skip
    return run


def run(parsed: argparse.Namespace) -> int:
    """Generate a client, or replace this process by the server.

    :raises StartupError: the arguments do not fit.
    """
    if not parsed.gen_api:
        start(parsed)
    from servekit_mms.client_code import generate

    options = {"set": assigned} if (assigned := _options(parsed)) else {}
    return generate(parsed.models, parsed.gen_api, options)


def start(parsed: argparse.Namespace) -> NoReturn:
    """Replace this process by the server, so that signals reach it."""
    command = [sys.executable, "-P", "-m", "servekit", "start"]
    command += [f"{each.name}={each.location}" for each in parsed.models]
    command += start_arguments(parsed)
    os.execve(sys.executable, command, os.environ | variables(parsed))  # noqa: S606 - not a shell


def start_arguments(parsed: argparse.Namespace) -> list[str]:
    """Return the settings that the arguments stand for, as ``servekit start`` takes them."""
    settings = {
        "host": parsed.host,
        "port": str(parsed.port),
        "log-level": LEVELS[parsed.log_level],
    }
    arguments = [f"--{name}={value}" for name, value in settings.items()]
    arguments += ["--plugin", "mms.root=true"]
    if assigned := _options(parsed):
        arguments += ["--set", *assigned]
    return arguments


def _options(parsed: argparse.Namespace) -> list[str]:
    """Return the options of each model: ``"lstm_ptb".options.gpu=0``."""
    options: dict[str, str] = {}
    if parsed.service is not None:
        path = parsed.service.absolute()
        if not path.is_file():
            raise StartupError(f"--service: {parsed.service} is not a file")
        options["service"] = json.dumps(str(path))
    if parsed.gpu is not None:
        options["gpu"] = str(parsed.gpu)
    return [
        f'"{model.name}".options.{name}={value}'
        for model in parsed.models
        for name, value in options.items()
    ]


def variables(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the environment by which the hooks of the observer know what to write."""
    found = {
        hooks.METRICS_WRITE_TO: parsed.metrics_write_to,
        hooks.METRICS_DIRECTORY: str(Path("metrics").absolute()),
    }
    if parsed.log_file:
        found[hooks.LOG_FILE] = str(Path(parsed.log_file).absolute())
        found[hooks.LOG_ROTATION_TIME] = parsed.log_rotation_time
        found[hooks.LOG_LEVEL] = LEVELS[parsed.log_level]
    return found


def model_of(text: str) -> NamedArchive:
    """Return the model that ``NAME=LOCATION`` names.

    :raises argparse.ArgumentTypeError: it names none, or a file that is not an archive.
    """
    name, _, location = text.partition("=")
    if not name or not location:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=LOCATION")
    if location.endswith(OTHER_MODELS):
        reason = "is not an archive; servekit-onnx serves a directory that contains it"
        raise argparse.ArgumentTypeError(f"{location} {reason}")
    return NamedArchive(name, location.removeprefix(FILE))


def _rotation(text: str) -> str:
    try:
        rotation_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text
