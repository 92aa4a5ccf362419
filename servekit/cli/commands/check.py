# SPDX-License-Identifier: Apache-2.0
"""``servekit check``: loads a model once and tries it, without serving it."""

import argparse
import json
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import msgspec
from servekit_archiver import Manifest

from servekit.cli.checking.checking import examine, prepare
from servekit.cli.checking.report import as_json, as_text, pipeline_as_json
from servekit.cli.output.display import create_display
from servekit.cli.output.plain import Display
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND
from servekit.errors import StartupError
from servekit.extension.commands import Run
from servekit.settings import Settings, load_settings
from servekit.supervisor.os.run_directory import remove_with_twin
from servekit.supervisor.preparing.messages import PreparedModel

if TYPE_CHECKING:
    from servekit.cli.checking.pipeline import PipelineReport

__all__ = ["check"]

EPILOG = """\
The service (of each stage) is loaded in a worker, as by servekit start. Then its examples are
run, and batches of several sizes, made from the examples (or from zeros according to the
signature). For a pipeline, the examples of the model go through all of it, in a server on a free
port.
Exit status 0: everything works; 1: an example or a batch fails; 3: the model cannot be
loaded.

examples:
  servekit check ./model_directory
  servekit check digits.mar --batch-sizes 1,8,64
  servekit check digits.mar --json > check.json
"""
SIZES = (1, 8, 32)


def check(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL", help="archive, model directory or URL")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--batch-sizes",
        type=sizes_of,
        metavar="N,N,...",
        help="sizes to measure (default 1,8,32, up to the model's max_batch_size)",
    )
    parser.add_argument(
        "--install-requirements",
        action="store_true",
        default=None,
        help="install the model's requirements.txt into a separate environment",
    )
    parser.add_argument("--policy", metavar="RULE,RULE,...", help="rules that it must keep")
    parser.add_argument(
        "--trusted-keys", nargs="+", metavar="PATH", help="public keys for the rule signed"
    )
    parser.add_argument(
        "--archive-keys", nargs="+", metavar="SOURCE", help="keys of encrypted archives"
    )
    parser.add_argument("--cache-dir", metavar="DIR", help="where archives are unpacked")
    return run


def sizes_of(text: str) -> list[int]:
    """Parse ``1,8,32``."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as 1,8,32")
    return [int(word) for word in words]


def run(parsed: argparse.Namespace) -> int:
    """Check the model and print what was found.

    :raises StartupError: it cannot be loaded.
    """
    flags = ("cache_dir", "install_requirements", "policy", "trusted_keys", "archive_keys")
    settings = load_settings({name: getattr(parsed, name) for name in flags})
    display = create_display(settings)
    scratch = Path(mkdtemp(prefix="servekit-check-"))
    try:
        prepared = prepare(parsed.model, settings, display, f"{scratch}/archive")
        stages = [each for stage in prepared.stages for each in (stage, *stage.colocated)]
        sizes = [sizes_to_measure(parsed.batch_sizes, stage.max_batch_size) for stage in stages]
        reports = [
            examine(prepared, stage, batch_sizes, settings, display)
            for stage, batch_sizes in zip(stages, sizes, strict=True)
        ]
        pipeline = _pipeline(prepared, parsed.model, settings, display)
    finally:
        display.close()
        remove_with_twin(scratch)
    if parsed.json:
        found = [as_json(report) for report in reports]
        both = {"stages": found, "pipeline": pipeline_as_json(pipeline)} if pipeline else found[0]
        print(json.dumps(both, indent=2))
    else:
        print(as_text(prepared.name, reports, pipeline))
    return PROBLEM_FOUND if any(each.problems for each in (*reports, pipeline) if each) else OK


def _pipeline(
    prepared: PreparedModel, text: str, settings: Settings, display: Display
) -> "PipelineReport | None":
    """Try the way through the stages, if there are several or a pipeline."""
    manifest = Manifest.from_mapping(msgspec.json.decode(prepared.manifest))
    if not (manifest.stages or manifest.pipeline):
        return None
    from servekit.cli.checking.pipeline import examine_pipeline  # imports much

    display.progress(prepared.name, "serving all stages")
    try:
        return examine_pipeline(prepared, manifest, text, settings)
    finally:
        display.progress(prepared.name, "")


def sizes_to_measure(asked: list[int] | None, most: int) -> list[int]:
    """Return the sizes to measure.

    :raises StartupError: one is larger than the model takes.
    """
    if asked is None:
        return sorted({min(size, most) for size in SIZES})
    if max(asked) > most:
        raise StartupError(f"--batch-sizes: {max(asked)} is above the model's limit, {most}")
    return asked
