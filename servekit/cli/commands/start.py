# SPDX-License-Identifier: Apache-2.0
"""``servekit start``: serve models until told to stop."""

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from servekit.cli.output.display import create_display
from servekit.cli.parsing.exit_status import OK, STARTUP_FAILED
from servekit.cli.parsing.options import add_options, given_flags
from servekit.errors import StartupError
from servekit.settings import load_settings
from servekit.supervisor.reporting.journal import Notice
from servekit.supervisor.server.start_up import OnlyModelRefused
from servekit.supervisor.server.supervisor import Supervisor

if TYPE_CHECKING:
    from servekit.extension.commands import Run

__all__ = ["start"]

EPILOG = """\
Each option is also a key of servekit.toml (max_body) and a variable (SERVEKIT_MAX_BODY).
A flag takes precedence over a variable, and a variable over the file.
Settings of a single model are tables [models.NAME] of servekit.toml, SERVEKIT_SET, or --set; those
of a plugin are [plugins.NAME], SERVEKIT_PLUGIN_NAME_KEY, or --plugin (servekit plugins lists them).

examples:
  servekit start digits.mar
  servekit start ./model_directory --port 0        use any free port; the URL is printed
  servekit start ./model_directory --reload        during development
  servekit start service.py:Digits                 a class in one file, without a model.toml
  servekit start a.mar two=b.mar --replicas 2 --host 0.0.0.0
  servekit start a.mar --set a.replicas=2 a.options.threshold=0.4
  servekit start --config servekit.toml --log-format json

while it runs:
  servekit status       servekit models       servekit reload       servekit crashes

signals:
  SIGHUP            read the settings of models again, load those that have changed,
                    replace the front-ends
  SIGTERM, SIGINT   become unready at once, finish requests in flight, exit with 0
                    (with 130 for a SIGINT during start-up)
  a second one      exit within two seconds (SIGQUIT: the same, at once)
"""


def start(parser: argparse.ArgumentParser) -> "Run":
    """Add one flag for each setting, and return what runs the command."""
    parser.usage = "servekit start [OPTION ...] [MODEL ...]"
    parser.epilog = EPILOG
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="MODEL",
        help="archive, model directory, FILE:CLASS or URL, or NAME=MODEL",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="read settings from FILE")
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        metavar="NAME.KEY=VALUE",
        help="settings of single models, as in [models.NAME] of servekit.toml: digits.replicas=2"
        " digits.env.MODE=fast digits.stages.decode.replicas=4",
    )
    parser.add_argument(
        "--plugin",
        nargs="+",
        action="extend",
        metavar="NAME.KEY=VALUE",
        help="settings of plugins, as in [plugins.NAME] of servekit.toml",
    )
    add_options(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Serve until a signal ends it.

    :raises StartupError: nothing could be served. A log of JSON gets it as its last line.
    :raises KeyboardInterrupt: Ctrl-C came before it was serving.
    """
    flags = given_flags(parsed) | {"set": parsed.set, "plugin": parsed.plugin}
    if parsed.paths:
        flags["models"] = [*parsed.paths, *(flags["models"] or [])]
    read = partial(load_settings, flags, parsed.config)
    settings = read()
    display = create_display(settings)
    try:
        Supervisor(settings, display, read).run()
    except StartupError as error:
        if settings.log_format == "json":
            display.notice(Notice("failed", "servekit", str(error), "error"))
        elif not isinstance(error, OnlyModelRefused):
            raise
        return STARTUP_FAILED  # the model has said so itself
    finally:
        display.close()
    return OK
