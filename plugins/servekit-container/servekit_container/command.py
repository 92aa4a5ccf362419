# SPDX-License-Identifier: Apache-2.0
"""``servekit dockerfile``: writes what a container image of models is built from."""

import argparse
import dataclasses
import json
import re
import shlex
import sys
from pathlib import Path

from servekit_archiver import ArchiveError

from servekit.errors import StartupError
from servekit.extension.commands import Run
from servekit.settings import load_settings, parse_models
from servekit_container.context import ImageOrder, write_context
from servekit_container.dockerfile import CACHE, MOUNT, PORT, USER_ID
from servekit_container.image import ImagePlan, PackedModel
from servekit_container.packages import parse_requirement

__all__ = ["dockerfile"]

EPILOG = """\
The command writes a Dockerfile to DIR with everything that it copies: the archives, their
requirements, and the versions of servekit and the plugins that are installed here (as wheels, if
they did not come from an index); also compose.yaml, and monitoring/ with dashboards and alerts, as
`servekit dashboards` writes them. It warns about imports of the models that no package provides:
add those to their requirements.

examples:
  servekit dockerfile digits.mar -o digits-image
  docker build -t digits:1.0 digits-image

  servekit dockerfile ./digits two=b.mar -o image --tag registry.example/models:7
  servekit dockerfile digits.mar -o image --install servekit-image --base python:3.13-slim
  servekit dockerfile llm.mar -o image --fetch-assets       weights inside the image
  servekit dockerfile -o image --tag registry.example/servekit:1    one image for all models
"""
BASE = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
REFERENCE = re.compile(
    r"(?:[A-Za-z0-9.-]+(?::\d+)?/)?"  # registry
    r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"  # path
    r"(?::\w[\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)


def dockerfile(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="archive or model directory, or NAME=PATH; without one, the image has the plugins that"
        " are installed here, and serves what is at /mnt/models",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="new or empty"
    )
    parser.add_argument(
        "-f", "--force", action="store_true", help="overwrite files of the same name"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--cache-dir", metavar="DIR", help="where archives are unpacked")
    _add_image_arguments(parser)
    return run


def _add_image_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--base",
        type=reference,
        metavar="IMAGE",
        help="base image (default: python:3.N-slim with the version of Python used here)",
    )
    parser.add_argument(
        "--tag",
        type=tag,
        metavar="NAME:TAG",
        help="name of the image (default: NAME:VERSION of the first model, or of servekit)",
    )
    parser.add_argument(
        "--install",
        action="extend",
        nargs="+",
        default=[],
        metavar="PACKAGE",
        help="additional packages, such as plugins with codecs, at the versions installed here",
    )
    parser.add_argument(
        "--find-links",
        action="extend",
        nargs="+",
        default=[],
        type=Path,
        metavar="DIR",
        help="folders of wheels from which packages were installed here; these wheels are copied,"
        " as are those of the folders in pip's configuration",
    )
    parser.add_argument(
        "--fetch-assets",
        action="store_true",
        help="fetch [assets] when the image is built (default: when it is started)",
    )


def reference(text: str) -> str:
    """Check the name of an image."""
    if not REFERENCE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of an image")
    return text


def tag(text: str) -> str:
    """Check the name of an image with its tag."""
    if "@" in text or ":" not in reference(text).rpartition("/")[2]:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:TAG")
    return text


def run(parsed: argparse.Namespace) -> int:
    """Write the build context, and print what to do with it.

    :raises StartupError: a model is refused, or the directory is not empty.
    """
    cache = load_settings({"cache_dir": parsed.cache_dir}).cache_dir
    order = ImageOrder(
        models=parse_models(parsed.models) if parsed.models else [],
        base=parsed.base or BASE,
        tag=parsed.tag or "",
        install=[parse_requirement(text) for text in parsed.install],
        links=[directory(path) for path in parsed.find_links],
        has_assets_inside=parsed.fetch_assets,
        cache=Path(cache) if cache else None,
    )
    try:
        image = write_context(order, parsed.output, tell=tell, force=parsed.force)
    except ArchiveError as error:
        raise StartupError(str(error)) from error
    for lack in image.lacking:
        tell(f"warning: {lack}")
    print(
        json.dumps(facts(image, parsed.output), indent=2)
        if parsed.json
        else as_text(image, parsed.output)
    )
    return 0


def directory(path: Path) -> Path:
    """Check that *path* is a folder."""
    if not path.is_dir():
        raise StartupError(f"--find-links: {path} is not a folder")
    return path


def tell(line: str) -> None:
    """Say what takes long."""
    sys.stderr.write(f"{line}\n")


def build_command(image: ImagePlan, directory: Path) -> str:
    """Return what builds the image."""
    return shlex.join(["docker", "build", "--tag", image.tag, str(directory)])


def facts(image: ImagePlan, directory: Path) -> dict[str, object]:
    """Return what was written, for programs."""
    return {
        "directory": str(directory),
        "tag": image.tag,
        "base": image.base,
        "name": image.label,
        "models": [_model(each) for each in image.models],
        "workers": image.workers,
        "load_timeout_s": image.load_timeout_s,
        "fetches_at_start": image.fetches_at_start,
        "port": PORT,
        "user_id": USER_ID,
        "cache_dir": CACHE,
        "files": sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()),
        "wheels": list(image.wheels),
        "lacking": [dataclasses.asdict(lack) for lack in image.lacking],
        "build": build_command(image, directory),
    }


def _model(model: PackedModel) -> dict[str, object]:
    return {
        "name": model.name,
        "version": model.manifest.version,
        "digest": model.digest,
        "workers": model.workers,
    }


def as_text(image: ImagePlan, directory: Path) -> str:
    """Return what was written, and the next steps, for people."""
    models = " ".join(f"{model.name}/{model.manifest.version}" for model in image.models)
    run_it = "docker run --rm --read-only --tmpfs /tmp -p 127.0.0.1:8080:8080"
    if image.fetches_at_start:  # the one place where it has to write
        run_it += f" -v {image.label}-cache:{CACHE}"
    if not image.models:
        run_it += f" -v ./model:{MOUNT}:ro"
    together = shlex.join(["docker", "compose", "--project-directory", str(directory)])
    return (
        f"{directory}: build context of {models or 'an image for any model'}\n"
        f"packages {_packages(image)}\n"
        f"build    {build_command(image, directory)}\n"
        f"run      {run_it} {image.tag}\n"
        f"or both, with Prometheus and Grafana: {together} up --build --wait"
    )


def _packages(image: ImagePlan) -> str:
    others = f", except {', '.join(image.wheels)}" if image.wheels else ""
    return f"from the index{others} (--find-links DIR adds packages of a folder)"
