# SPDX-License-Identifier: Apache-2.0
"""``servekit mms --gen-api``: the description of the models, and a client made of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import servekit
from servekit.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit_mms.command import NamedArchive

__all__ = ["generate", "generator_command"]

BUILD: Final = Path("build")
TIMEOUT_S: Final = 30.0
#: programs that generate clients, and their flag for the language
GENERATORS: Final = {
    "swagger-codegen": "-l",
    "openapi-generator": "-g",
    "openapi-generator-cli": "-g",
}
NO_GENERATOR: Final = """\
no generator is installed, so there is only the description; install one of {names}, and run
  {command}"""


def generate(models: Sequence[NamedArchive], language: str, options: Mapping[str, Any]) -> int:
    """Write ``build/openapi.json``, and a client in *language* beside it.

    :param options: of the server that describes the models; it has a free port of loopback.
    :return: the exit status: that of the generator, or 1 without one.
    :raises StartupError: a model cannot be loaded.
    """
    paths = {each.name: each.location for each in models}
    with servekit.serve(paths, block=False, port=0, strict=True, **options) as server:
        url = f"{server.url}/api-description"
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # noqa: S310 - our own
            description = json.load(response)["description"]
    description.pop("host", None)  # the server has ended
    BUILD.mkdir(exist_ok=True)
    path = BUILD / "openapi.json"
    path.write_text(json.dumps(description, indent=2) + "\n", "utf-8")
    sys.stdout.write(f"{path}\n")
    sys.stdout.flush()
    return _run_generator(path, language)


def generator_command(program: str, path: Path, language: str) -> list[str]:
    """Return the command that has *program* generate a client."""
    flag = GENERATORS[program]
    return [program, "generate", "-i", str(path), flag, language, "-o", str(BUILD)]


def _run_generator(path: Path, language: str) -> int:
    found = next(filter(shutil.which, GENERATORS), None)
    if found is None:
        command = " ".join(generator_command("swagger-codegen", path, language))
        raise StartupError(NO_GENERATOR.format(names=", ".join(GENERATORS), command=command))
    return subprocess.run(generator_command(found, path, language), check=False).returncode
