# SPDX-License-Identifier: Apache-2.0
"""The commands: each function adds the arguments of one to its parser, and returns what runs it."""

import json
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path

from servekit_archiver.archive.builder import build_archive
from servekit_archiver.archive.reader import open_archive
from servekit_archiver.cli import contents
from servekit_archiver.cli.completion import completion
from servekit_archiver.cli.guarded import guarded
from servekit_archiver.cli.migrate import migrate
from servekit_archiver.cli.output import human_bytes, progress_bar
from servekit_archiver.commands import Run
from servekit_archiver.counting import counted
from servekit_archiver.directory.scaffold import DEFAULT_TEMPLATE, TEMPLATES, scaffold
from servekit_archiver.errors import ArchiveError

__all__ = ["build", "completion", "extract", "init", "inspect", "migrate", "sbom", "verify"]


def init(parser: ArgumentParser) -> Run:
    """``init``: write a directory to start from."""
    parser.epilog = """examples:
  %(prog)s hello
  %(prog)s . --name hello
  %(prog)s chat --template openai
  %(prog)s --list
"""
    parser.add_argument(
        "directory", nargs="?", type=Path, metavar="DIR", help="created if it does not exist"
    )
    parser.add_argument("--name", help="name of the model; default: name of the directory")
    parser.add_argument(
        "--template",
        choices=TEMPLATES,
        default=DEFAULT_TEMPLATE,
        help=f"what to start from; default: {DEFAULT_TEMPLATE}",
    )
    parser.add_argument("--list", action="store_true", help="list the templates")
    return guarded(partial(_init, parser))


def _init(parser: ArgumentParser, args: Namespace) -> None:
    if args.list:
        for name, template in TEMPLATES.items():
            print(f"{name:<9} {template.summary}")
        return
    if args.directory is None:
        parser.error("DIR is missing")
    for path in scaffold(args.directory, args.name, args.template):
        print(path)
    template = TEMPLATES[args.template]
    if template.needs:
        print(f"needs: pip install {template.needs}")
    if template.first:
        print(f"first: {template.first.format(directory=args.directory)}")
    print(f"next: {args.program} build {args.directory / template.model}")


def build(parser: ArgumentParser) -> Run:
    """``build``: pack a model directory, and print file, size and digest."""
    parser.epilog = """examples:
  %(prog)s digits
  %(prog)s digits -o /srv/models/digits.mar --force
  %(prog)s . --version 1.1 --json
  %(prog)s digits --lock        # pin the packages of its requirements.txt
  %(prog)s digits --wheels      # and pack them: servers then need no index
"""
    parser.add_argument("directory", type=Path, metavar="DIR", help="directory with a model.toml")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: NAME.mar in this directory"
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace an existing file")
    parser.add_argument("--name", help="override the name in model.toml")
    parser.add_argument("--version", help="override the version in model.toml")
    parser.add_argument("--service", help="override the service in model.toml")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    locking = parser.add_argument_group("requirements", "An existing requirements.lock is packed.")
    locking.add_argument(
        "--lock", action="store_true", help="write requirements.lock with uv: versions and hashes"
    )
    locking.add_argument(
        "--wheels",
        action="store_true",
        help="pack the wheels of the lock, which is written first if it is missing or outdated",
    )
    locking.add_argument(
        "--python",
        default="",
        metavar="3.N",
        help="Python to lock for; default: that of the lock, or the running one",
    )
    return guarded(_build)


def _build(args: Namespace) -> None:
    given = {"name": args.name, "version": args.version, "service": args.service}
    overrides = {key: value for key, value in given.items() if value is not None}
    if args.lock or args.wheels:
        _lock(args, overrides)
    elif args.python:
        raise ArchiveError("--python: requires --lock or --wheels")
    with progress_bar("packing") as progress:
        built = build_archive(
            args.directory, args.output, force=args.force, progress=progress, overrides=overrides
        )
    manifest = built.manifest
    if args.json:
        identity = {"name": manifest.name, "version": manifest.version}
        result = {"path": str(built.path), "size": built.size, "digest": built.digest, **identity}
        print(json.dumps(result))
        return
    count = counted(len(manifest.files), "file")
    size = human_bytes(built.size)
    print(f"{built.path}: {manifest.name} {manifest.version}, {count}, {size}")
    print(f"digest {built.digest}")


def _lock(args: Namespace, overrides: dict[str, str]) -> None:
    from servekit_archiver.directory.locking import lock_directory  # most builds lock nothing

    lock_directory(
        args.directory,
        python=args.python,
        wheels=args.wheels,
        keep=not args.lock,
        tell=lambda text: print(text, file=sys.stderr),
        overrides=overrides,
    )


def inspect(parser: ArgumentParser) -> Run:
    """``inspect``: print the manifest and the files."""
    parser.epilog = """examples:
  %(prog)s digits.mar
  %(prog)s digits.mar --json | python -m json.tool
"""
    parser.add_argument("archive", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print the manifest and more as JSON")
    return guarded(_inspect)


def _inspect(args: Namespace) -> None:
    with open_archive(args.archive) as archive:
        if args.json:
            print(json.dumps(contents.as_json(archive)))
        else:
            print("\n".join(contents.as_text(archive)))


def verify(parser: ArgumentParser) -> Run:
    """``verify``: read every file and compare it with the manifest; plugins check more."""
    from servekit_archiver.cli.plugin_commands import checks

    parser.epilog = "examples:\n  %(prog)s digits.mar\n  %(prog)s digits.mar && echo sound\n"
    parser.add_argument("archive", type=Path, metavar="FILE")
    more = checks(parser)

    def run(args: Namespace) -> None:
        with open_archive(args.archive) as archive, progress_bar("verifying") as progress:
            archive.verify(progress)
            lines = [line for check in more for line in check(archive, args)]
            size = human_bytes(archive.unpacked_size)
            print(f"{args.archive}: sound, {counted(len(archive.entries), 'file')}, {size}")
            print("\n".join([f"digest {archive.digest}", *lines]))

    return guarded(run)


def extract(parser: ArgumentParser) -> Run:
    """``extract``: verify and unpack, all or nothing."""
    parser.epilog = """examples:
  %(prog)s digits.mar digits
  %(prog)s digits.mar digits --force    # over the files that are there
"""
    parser.add_argument("archive", type=Path, metavar="FILE")
    parser.add_argument("directory", type=Path, metavar="DIR", help="new or empty")
    parser.add_argument(
        "-f", "--force", action="store_true", help="overwrite files of the same name in DIR"
    )
    parser.add_argument(
        "--with-manifest",
        action="store_true",
        help="write the manifest too: a server then treats DIR like the archive",
    )
    return guarded(_extract)


def _extract(args: Namespace) -> None:
    with open_archive(args.archive) as archive, progress_bar("unpacking") as progress:
        archive.extract(
            args.directory, progress, force=args.force, with_manifest=args.with_manifest
        )
        size = human_bytes(archive.unpacked_size)
        print(f"{args.directory}: {counted(len(archive.entries), 'file')}, {size}")


def sbom(parser: ArgumentParser) -> Run:
    """``sbom``: print a software bill of materials."""
    parser.epilog = "examples:\n  %(prog)s digits.mar > digits.cdx.json\n"
    parser.add_argument("archive", type=Path, metavar="FILE")
    return guarded(_sbom)


def _sbom(args: Namespace) -> None:
    from servekit_archiver.archive.sbom import make_sbom

    with open_archive(args.archive) as archive:
        print(json.dumps(make_sbom(archive), indent=2))
