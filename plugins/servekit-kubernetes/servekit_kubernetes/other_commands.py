# SPDX-License-Identifier: Apache-2.0
"""Runs ``servekit dockerfile`` and ``servekit check``, and reads what they tell as JSON."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servekit.errors import StartupError

__all__ = ["check_model", "write_image"]

#: how the message of an error begins, and the hint at the end of one about an argument
ERROR = re.compile(r"servekit(?: \w+)?: (.*?)(?: \(see servekit .*--help\))?\n?")


def write_image(models: Sequence[str], directory: Path, options: Sequence[str]) -> dict[str, Any]:
    """Write the build context of *models* into *directory*, and return what is in it.

    :raises StartupError: what ``servekit dockerfile`` says.
    """
    try:
        return _run("dockerfile", "--json", "--output", str(directory), *options, "--", *models)
    except StartupError as error:  # its --tag is what people gave as --image
        raise StartupError(str(error).replace("argument --tag:", "argument --image:")) from error


def check_model(path: str, cache_dir: str | None) -> Mapping[str, Any]:
    """Return what a worker of the model at *path* needs, as it was measured.

    :raises StartupError: it cannot be loaded here, or one of its examples fails.
    """
    cache = ["--cache-dir", cache_dir] if cache_dir else []
    try:
        return _run("check", "--json", *cache, "--", path)
    except StartupError as error:
        raise StartupError(
            f"{error}\n{path}: its memory cannot be measured here; --memory gives it,"
            " and --no-check leaves it out"
        ) from error


def _run(*arguments: str) -> dict[str, Any]:
    """Run a command; what it says beside errors goes to stderr.

    :raises StartupError: it fails; the message is its own.
    """
    errors = []
    with subprocess.Popen(
        [sys.executable, "-m", "servekit", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout
        assert process.stderr
        for line in process.stderr:
            if found := ERROR.fullmatch(line):
                errors.append(found[1])
            else:
                sys.stderr.write(line)
        output = process.stdout.read()
    if process.returncode:
        command = f"`servekit {arguments[0]}` exited with {process.returncode}"
        raise StartupError("\n".join(errors) or f"{command}; `servekit {arguments[0]}` says why")
    return dict(json.loads(output))
