# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.frontend``: started by the supervisor, runs gunicorn in the foreground."""

import argparse
import json
import os
import sys
from pathlib import Path

from servekit.errors import StartupError
from servekit.frontend.server.application import Application
from servekit.ipc.counters import Counters
from servekit.settings import Settings
from servekit.settings.plugin_values import PluginValue
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
    values = json.loads((args.run_dir / "settings.json").read_text(encoding="utf-8"))
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    values["plugins"] = tuple(PluginValue(**each) for each in values["plugins"])
    try:
        counters = Counters(args.counters)
        sockets = args.listener, args.manage
        settings = Settings(**values)
        Application(settings, args.run_dir, *sockets, counters, args.stdout).run()
    except StartupError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(os.EX_CONFIG)  # the supervisor does not try again


if __name__ == "__main__":
    main()
