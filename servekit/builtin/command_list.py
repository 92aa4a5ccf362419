# SPDX-License-Identifier: Apache-2.0
"""The commands that come with servekit; those of the archive are ``servekit-archive``'s own.

Apart from the hook that offers them, so that they run without pluggy.
"""

from typing import Final

from servekit_archiver.cli import COMMANDS as ARCHIVE_COMMANDS

from servekit.extension.commands import Command

__all__ = ["COMMANDS"]

SERVER_COMMANDS: Final = {
    "start": "serve models until told to stop",
    "check": "load a model once, run its examples, and measure batches",
    "assets": "fetch or make the files that a model needs and its archive does not hold",
    "describe": "say what a model takes and returns, without loading it",
    "snippet": "write a call of a model for curl, Python or JavaScript",
    "plugins": "list the installed plugins and what they offer",
    "status": "say whether a running server is healthy, and how each model is",
    "models": "list the models of a running server, worker by worker",
    "reload": "have a running server load what has changed of its models",
    "crashes": "show which workers of a running server crashed, hung or could not load",
}
COMMANDS: Final = (
    *(
        Command(name, summary, f"servekit_archiver.cli.commands:{name}")
        for name, summary in ARCHIVE_COMMANDS.items()
    ),
    *(
        Command(name, summary, f"servekit.cli.commands.{name}:{name}")
        for name, summary in SERVER_COMMANDS.items()
    ),
)
