# SPDX-License-Identifier: Apache-2.0
"""The commands that come with servekit; those of the archive are ``servekit-archive``'s own.

Apart from the hook that offers them, so that they run without pluggy.
"""

from typing import Final

from servekit_archiver.cli import COMMANDS as ARCHIVE_COMMANDS

from servekit.extension.commands import Command

__all__ = ["COMMANDS"]

SERVER_COMMANDS: Final = {
    "start": "serve models until stopped by a signal",
    "check": "load a model once, run its examples, and measure batches",
    "assets": "fetch or create the files that a model needs and its archive does not contain",
    "cache": "list or remove unpacked archives, assets and environments",
    "env": "list or remove the environments of models",
    "describe": "describe the inputs and outputs of a model without loading it",
    "snippet": "write code that calls a model, for curl, Python, JavaScript or pytest",
    "plugins": "list the installed plugins and the hooks they implement",
    "status": "show whether a running server and its models are healthy",
    "models": "list the models of a running server, or show one in detail",
    "load": "load a model, or one more version of one, into a running server",
    "unload": "stop serving a model, or one version of it",
    "scale": "change the number of replicas of a model",
    "swap": "replace the version of a model once the new one has proved itself",
    "rollback": "return to the version of a model before the last swap",
    "alias": "give a version of a model another name",
    "traffic": "decide which versions of a model answer",
    "top": "show the traffic, latency and resources of each version of each model",
    "logs": "show the last lines of a running server's log, and follow it",
    "doctor": "look for problems of this machine, the settings or a running server",
    "reload": "make a running server load models that have changed",
    "crashes": "list crashes, hangs and failed loads of workers of a running server",
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
