# SPDX-License-Identifier: Apache-2.0
"""``servekit tune``: finds the settings of an archive for a latency."""

import argparse
import json
from pathlib import Path
from typing import Final

from servekit_archiver import ArchiveError, Manifest, load_directory, open_archive

from servekit.errors import StartupError
from servekit.extension.commands import Run
from servekit.settings.arguments import count, duration, output_file, positive
from servekit_bench.progress import ProgressLine
from servekit_bench.targets import TargetOptions
from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.lab import ServerLab
from servekit_bench.tune.machine import OtherProcesses, available_memory, usable_cores
from servekit_bench.tune.outcome import Outcome
from servekit_bench.tune.page import tune_page
from servekit_bench.tune.planning import Goal, TuneLimits
from servekit_bench.tune.probing import LARGEST
from servekit_bench.tune.search import Search, Tuning
from servekit_bench.tune.text import as_json, as_text

__all__ = ["tune"]

INFEASIBLE: Final = 1
INTERRUPTED: Final = 130
BUSY: Final = 0.2  #: cores that other processes may use without a doubt

EPILOG = """\
MODEL is an archive or a model directory with examples, which are the requests. The command serves
it on free ports of this machine, again and again with other settings: it measures what batches of
each size cost, predicts with these costs which settings could be the best, measures those, and
compares the best ones alternating. Keep the machine otherwise idle.

Without --rate, the best settings answer the most requests per second within the latency. With
--rate, they keep the latency at this rate with the fewest replicas.

The settings are printed as a section of servekit.toml. --output writes them to a file, which must
not exist unless --force is given. Ctrl-C ends the search, and prints what is known by then.

Exit status 0: settings were found; 1: none keep the latency, and the best that there is is
printed; 3: the model cannot be served; 130: Ctrl-C.

examples:
  servekit tune digits.mar --p99 20ms
  servekit tune digits.mar --p99 20ms --rate 500 --output servekit.toml
  servekit tune ./model --p99 100ms --budget 2m --max-replicas 1 --html report.html
"""


def tune(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL", help="archive or model directory")
    parser.add_argument(
        "--p99",
        type=duration,
        required=True,
        metavar="TIME",
        help="latency that 99 %% of the requests must keep, such as 20ms",
    )
    parser.add_argument("--rate", type=positive, metavar="N", help="requests/s that must be served")
    parser.add_argument(
        "--budget", type=duration, default=300.0, metavar="TIME", help="how long to try (5m)"
    )
    parser.add_argument(
        "--max-replicas", type=count, metavar="N", help="default: the number of cores"
    )
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME.KEY=VALUE",
        help="other settings of the model, as for servekit start",
    )
    parser.add_argument(
        "--input",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="PATH",
        help="files to send, in place of the examples",
    )
    parser.add_argument(
        "-o", "--output", type=output_file, metavar="FILE", help="write the settings there"
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument(
        "--html", type=output_file, metavar="FILE", help="write a report with plots"
    )
    return run


def run(parsed: argparse.Namespace) -> int:
    """Search, and print the outcome.

    :raises StartupError: the model cannot be served, or a file exists.
    """
    if parsed.output is not None and parsed.output.exists() and not parsed.force:
        raise StartupError(f"{parsed.output}: exists; --force overwrites it")
    manifest = _manifest_of(parsed.model)
    progress = ProgressLine()
    options = TargetOptions(settings={"set": parsed.set}, inputs=tuple(parsed.input))
    lab = ServerLab(parsed.model, manifest.name, options, progress.show)
    others = OtherProcesses()
    try:
        outcome = Search(_tuning(parsed, manifest), lab, progress.show).run()
    finally:
        progress.clear()
    if (cores := others.cores()) > BUSY:
        outcome.doubts.append(f"other processes kept {cores:.1f} cores of the machine busy")
    _print(parsed, manifest.name, outcome)
    if outcome.was_stopped:
        return INTERRUPTED
    return 0 if outcome.best is not None else INFEASIBLE


def _tuning(parsed: argparse.Namespace, manifest: Manifest) -> Tuning:
    cores = usable_cores()
    batching, worker = manifest.batching, manifest.worker
    own = Candidate(
        max_batch_size=batching.max_batch_size,
        max_delay_ms=batching.max_delay_ms,
        replicas=worker.replicas,
    )
    return Tuning(
        goal=Goal(parsed.p99, parsed.rate or 0.0),
        limits=TuneLimits(cores, available_memory(), parsed.max_replicas or cores),
        own=own,
        sizes=tuple(1 << power for power in range(LARGEST.bit_length())),
        budget_s=parsed.budget,
    )


def _manifest_of(path: str) -> Manifest:
    """Return the manifest of an archive or a model directory.

    :raises StartupError: it is neither, or it cannot be tuned: it has several stages or a cache.
    """
    if "://" in path:
        raise StartupError(f"{path}: give an archive or model directory; tune starts it itself")
    try:
        if Path(path).is_dir():
            manifest = load_directory(path)
        else:
            with open_archive(path) as archive:
                manifest = archive.manifest
    except ArchiveError as error:
        text = str(error)
        raise StartupError(text if text.startswith(f"{path}: ") else f"{path}: {text}") from error
    except OSError as error:
        raise StartupError(f"{path}: {error.strerror}") from error
    if manifest.cache is not None:
        raise StartupError(
            f"{path}: answers equal requests from its [cache]; tune a copy without it"
        )
    if manifest.stages:
        raise StartupError(f"{path}: has several stages; tune each of them as a separate model")
    return manifest


def _print(parsed: argparse.Namespace, model: str, outcome: Outcome) -> None:
    if parsed.json:
        print(json.dumps(as_json(model, outcome), indent=2))
    else:
        print(as_text(model, outcome), end="")
    if parsed.output is not None and outcome.best is not None:
        parsed.output.write_text(outcome.best.candidate.to_toml(model), encoding="utf-8")
    if parsed.html is not None:
        parsed.html.write_text(tune_page(model, outcome), encoding="utf-8")
