# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.frontend``: started by the supervisor, runs gunicorn in the foreground."""

import argparse
import os
import sys
from pathlib import Path

from servekit.errors import StartupError
from servekit.frontend.server.application import Application
from servekit.ipc.counters import Counters
from servekit.settings.shared import read_settings
from servekit.system.parent_death import die_with_parent


def main() -> None:
    """Serve on inherited listeners until the supervisor says stop or is gone."""
    parser = argparse.ArgumentParser(prog="python -m servekit.frontend")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--listener", type=int, nargs="+", required=True)
    parser.add_argument("--manage", type=int, nargs="*", default=())
    parser.add_argument("--counters", type=int, required=True)
    parser.add_argument("--stdout", type=int)
    parser.add_argument("--parent", type=int, required=True)
    args = parser.parse_args()
    die_with_parent(args.parent)
    settings = read_settings(args.run_dir)
    try:
        counters = Counters(args.counters)
        sockets = args.listener, args.manage
        Application(settings, args.run_dir, *sockets, counters, args.stdout).run()
    except StartupError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(os.EX_CONFIG)  # the supervisor does not try again


if __name__ == "__main__":
    main()
