# SPDX-License-Identifier: Apache-2.0
"""``servekit snippet``: a call of a model to copy, without loading it."""

import argparse
import dataclasses
import re
import shlex
import sys
from pathlib import Path

from servekit.cli.model import known_model
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND
from servekit.description.interface import PathDescription
from servekit.description.samples import SampleFile, SampleForm, SampleValue, sample, sample_form
from servekit.description.snippets import FORMATS, SnippetRequest
from servekit.extension.commands import Run

__all__ = ["snippet"]

EPILOG = """\
The input is the first of the [[examples]], or is made from the [signature] or, with --import,
from the annotations of the service. For a form, replace the files by your own: image.png for the
field image.

examples:
  servekit snippet digits.mar | sh
  servekit snippet digits.mar --format python --url https://models.example
  servekit snippet ./shipping --format javascript > snippet.mjs
  servekit snippet ./answers --path /v1/embeddings --import
  servekit snippet textgen.mar --stream --format python
"""
Sample = SampleFile | SampleForm | SampleValue
COMMENTS = {"javascript": "//"}


def snippet(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    known_model.add_arguments(parser)
    known_model.add_path(parser, "call this path instead of predict")
    parser.add_argument("--format", choices=FORMATS, default="curl", help="default: curl")
    parser.add_argument(
        "--url", type=server_url, default="http://127.0.0.1:8080", metavar="URL",
        help="where the server is (default http://127.0.0.1:8080)",
    )  # fmt: skip
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--stream", action="store_true", help="show each output as it arrives")
    ways.add_argument("--form", action="store_true", help="send the fields as multipart/form-data")
    return run


def server_url(text: str) -> str:
    """Return *text* without a slash at its end, if it is the URL of a server."""
    if not re.fullmatch(r"https?://[!-~]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} begins with neither http:// nor https://")
    return text.rstrip("/")


def run(parsed: argparse.Namespace) -> int:
    """Print the call.

    :raises StartupError: the model is refused.
    """
    described = known_model.read(parsed).at(parsed.path)
    found = sample_form(described) if parsed.form else sample(described)
    if reason := problem(described, found, parsed):
        sys.stderr.write(f"servekit: {described.path}: {reason}\n")
        return PROBLEM_FOUND
    assert found is not None
    note = ""
    if isinstance(found, SampleFile):
        directory, note = _unpacked(parsed.model)
        found = dataclasses.replace(found, path=str(directory / found.path))
    elif isinstance(found, SampleForm) and found.files:
        note = f"needs files of your own: {', '.join(found.files.values())}"
    call = SnippetRequest(
        server=parsed.url,
        path=described.path,
        sample=found,
        instances=described.instances,
        file=described.answer_file,
        streams=parsed.stream,
        style=described.style,
    )
    sys.stdout.write(f"{COMMENTS.get(parsed.format, '#')} {note}\n" if note else "")
    sys.stdout.write(FORMATS[parsed.format](call))
    return OK


def problem(described: PathDescription, found: Sample | None, parsed: argparse.Namespace) -> str:
    """Return why there is no such call, or ""."""
    if parsed.stream and described.is_loaded and not described.streams:
        return "its outputs do not come one by one; leave out --stream"
    if parsed.form and described.instances:
        return "several instances cannot be sent as a form; leave out --form"
    if found is None and parsed.form and sample(described) is not None:
        return f"nothing says which fields it has; leave out --form{_import_hint(parsed)}"
    if found is None and parsed.imports:
        return (
            "neither the manifest nor the types of its code say what it takes: give it [[examples]]"
        )
    if found is None:
        hint = _import_hint(parsed)
        return f"nothing says what it takes: give it [[examples]] or a [signature]{hint}"
    if parsed.stream and parsed.format == "python" and isinstance(found, SampleFile):
        return "servekit-client sends no file as it is and streams the answer; try another --format"
    return ""


def _import_hint(parsed: argparse.Namespace) -> str:
    return "" if parsed.imports else ", or try --import"


def _unpacked(path: Path) -> tuple[Path, str]:
    """Return where the files of a model are, and how they get there."""
    if path.is_dir():
        return path, ""
    directory = Path(path.stem)
    command = shlex.join(["servekit", "extract", str(path), str(directory)])
    return directory, f"the file is in the archive: {command}"
