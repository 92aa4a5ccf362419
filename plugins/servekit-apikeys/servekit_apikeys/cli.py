# SPDX-License-Identifier: Apache-2.0
"""``servekit-apikeys new NAME``: make a key, and write what the server needs of it to the file."""

import argparse
import os
import secrets
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from servekit.errors import PluginError
from servekit.settings.arguments import nonnegative, whole
from servekit_apikeys.hooks import VARIABLE
from servekit_apikeys.keyring import Key, digest, read_keys

__all__ = ["main"]

EPILOG = """\
The key is printed once and kept nowhere; the file holds its SHA-256.

example:
  KEY=$(servekit-apikeys new ada --file keys.toml --models 'digits*' --rate 10 --burst 20)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``servekit-apikeys`` and return its exit status."""
    parsed = create_parser().parse_args(argv)
    secret = f"sk_{secrets.token_urlsafe(32)}"
    fields = {name: getattr(parsed, name) for name in ("name", "models", "rate", "burst")}
    try:
        add_key(parsed.file, msgspec.convert(fields | {"sha256": digest(secret)}, Key))
    except (PluginError, OSError, msgspec.ValidationError) as error:
        sys.stderr.write(f"servekit-apikeys: {error}\n")
        return 1
    print(secret)
    return 0


def create_parser() -> argparse.ArgumentParser:
    """Return what the command takes."""
    parser = argparse.ArgumentParser(prog="servekit-apikeys", description="Makes API keys.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser(
        "new", help="make a key", epilog=EPILOG, formatter_class=argparse.RawTextHelpFormatter
    )
    file = os.environ.get(VARIABLE)
    new.add_argument("name", help="whose key it is, for you to know")
    new.add_argument(
        "--file", type=Path, default=file and Path(file), required=not file,
        help=f"file of keys, made if it is not there (default: ${VARIABLE})",
    )  # fmt: skip
    new.add_argument(
        "--models", nargs="+", default=["*"], metavar="PATTERN",
        help="models it opens, such as digits or digits* (default: all)",
    )  # fmt: skip
    new.add_argument(
        "--rate", type=nonnegative, default=0.0, help="requests a second (default: any)"
    )
    new.add_argument("--burst", type=whole, default=0, help="requests at once (default: the rate)")
    return parser


def add_key(path: Path, key: Key) -> None:
    """Append *key* to the file, which nobody else may read if it is new.

    :raises PluginError: the file is not one of keys, has this name already, or would be broken.
    """
    known = read_keys(path) if path.exists() else []
    if key.name in (other.name for other in known):
        raise PluginError(f"{path}: has a key called {key.name}")
    # the JSON of these types is valid TOML
    fields = msgspec.structs.asdict(key).items()
    lines = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in fields]
    table = "\n".join(["", "[[keys]]", *lines, ""])  # the last line of the file may have no end
    if path.exists():
        _check_fits(path, table)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with open(descriptor, "a", encoding="utf-8") as file:  # noqa: PTH123 - only open() takes a descriptor
        file.write(table)


def _check_fits(path: Path, table: str) -> None:
    """Refuse a file to whose keys no *table* can be appended: ``keys = [{...}]``."""
    try:
        tomllib.loads(path.read_text(encoding="utf-8") + table)
    except tomllib.TOMLDecodeError as error:
        reason = "a key can be added only if the others are written as [[keys]]"
        raise PluginError(f"{path}: {reason}") from error


if __name__ == "__main__":
    sys.exit(main())
