# SPDX-License-Identifier: Apache-2.0
"""``servekit snippet``: a call of a model to copy, without loading it."""

import argparse
import dataclasses
import re
import shlex
import sys
from pathlib import Path

from servekit.cli import model
from servekit.cli.exit_status import OK, PROBLEM_FOUND
from servekit.description.samples import File, sample
from servekit.description.snippets import FORMATS

__all__ = ["add_arguments", "run"]

EPILOG = """\
The input is the first of the [[examples]], or made from the [signature] or, with --import, from the
types of predict.

examples:
  servekit snippet digits.mar | sh
  servekit snippet digits.mar --format python --url https://models.example
  servekit snippet ./shipping --format javascript > snippet.mjs
"""
COMMENTS = {"javascript": "//"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.epilog = EPILOG
    model.add_arguments(parser)
    parser.add_argument("--format", choices=FORMATS, default="curl", help="default: curl")
    parser.add_argument(
        "--url", type=server_url, default="http://127.0.0.1:8080", metavar="URL",
        help="where the server is (default http://127.0.0.1:8080)",
    )  # fmt: skip


def server_url(text: str) -> str:
    """Return *text* without a slash at its end, if it is the URL of a server."""
    if not re.fullmatch(r"https?://[!-~]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} begins with neither http:// nor https://")
    return text.rstrip("/")


def run(parsed: argparse.Namespace) -> int:
    """Print the call.

    :raises StartupError: the model is refused.
    """
    described = model.read(parsed).described
    found = sample(described)
    if found is None:
        reason = (
            "nothing says what it takes: give it [[examples]] or a [signature], or try --import"
        )
        sys.stderr.write(f"servekit: {described.name}: {reason}\n")
        return PROBLEM_FOUND
    if isinstance(found, File):
        place, note = _unpacked(parsed.model)
        found = dataclasses.replace(found, path=str(place / found.path))
        sys.stdout.write(f"{COMMENTS.get(parsed.format, '#')} {note}\n" if note else "")
    sys.stdout.write(FORMATS[parsed.format](described.name, parsed.url, found))
    return OK


def _unpacked(path: Path) -> tuple[Path, str]:
    """Return where the files of a model are, and how they get there."""
    if path.is_dir():
        return path, ""
    place = Path(path.stem)
    command = shlex.join(["servekit-archive", "extract", str(path), str(place)])
    return place, f"the file is in the archive: {command}"
