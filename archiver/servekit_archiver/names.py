# SPDX-License-Identifier: Apache-2.0
"""Which file names an archive may hold: names that mean one file on every file system."""

import re
from collections.abc import Iterable, Iterator
from typing import Final
from unicodedata import normalize

from servekit_archiver.invisible import invisible_character

__all__ = ["MANIFEST", "RESERVED", "find_clashes", "is_reserved", "name_problem", "parents"]

RESERVED: Final = "MAR-INF"  #: the folder of the format itself
MANIFEST: Final = "MAR-INF/MANIFEST.json"

PART_BYTES: Final = 255  # what ext4, XFS, APFS and NTFS store
NAME_BYTES: Final = 1024
PARTS: Final = 32
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
DRIVE: Final = re.compile(r"[A-Za-z]:")
WILD: Final = re.compile(r'[<>:"|?*]')  # what Windows takes for streams, patterns and redirections
#: the devices of Windows, whatever follows the first dot
DEVICE: Final = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\xb9\xb2\xb3]) *(?:\..*)?", re.IGNORECASE
)


def name_problem(name: str) -> str | None:
    """Return why *name* may not be a file of an archive, or ``None``. Never mends a name."""
    if problem := _character_problem(name):
        return problem
    if name.startswith("/"):
        return "is an absolute path"
    if DRIVE.match(name):
        return "starts with a drive letter"
    parts = name.split("/")
    if len(parts) > PARTS:
        return f"is {len(parts)} folders deep, limit {PARTS}"
    return next(filter(None, map(_part_problem, parts)), None)


def _character_problem(name: str) -> str | None:
    if not name:
        return "is empty"
    if CONTROL.search(name):
        return "contains a control character"
    if "\\" in name:
        return "contains a backslash"
    if found := invisible_character(name):
        return f"contains an invisible character, U+{ord(found):04X}"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    return f"is {size} bytes long, limit {NAME_BYTES}" if size > NAME_BYTES else None


def _part_problem(part: str) -> str | None:
    if part == "":
        return "contains an empty part"
    if part in (".", ".."):
        return f"contains the part '{part}'"
    if (size := len(part.encode())) > PART_BYTES:
        return f"has a part of {size} bytes, limit {PART_BYTES}"
    if found := WILD.search(part):
        return f"contains {found[0]}, which means something else on Windows"
    if part[-1] in ". ":
        return "has a part that ends in a dot or a space, which Windows leaves out"
    if DEVICE.fullmatch(part):
        return f"has the part '{part}', a device on Windows"
    return None


def is_reserved(name: str) -> bool:
    """Say whether *name* lies in the folder that belongs to the format."""
    return _key(name.split("/", 1)[0]) == _key(RESERVED)


def parents(name: str) -> Iterator[str]:
    """Yield the folders above *name*, outermost first: ``a``, ``a/b`` for ``a/b/c``."""
    for index, character in enumerate(name):
        if character == "/":
            yield name[:index]


def find_clashes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of names that some file system would take for one and the same.

    Two names clash when they are equal, or equal but for case or Unicode form, or when
    one is a file and also a folder above the other.
    """
    seen: dict[str, tuple[str, bool]] = {}  # key -> (spelling, is a folder)
    for name in names:
        for path, is_folder in (*((folder, True) for folder in parents(name)), (name, False)):
            known = seen.get(key := _key(path))
            if known is None:
                seen[key] = path, is_folder
            elif not (is_folder and known == (path, True)):  # a folder may be met again
                yield known[0], name
                break


def _key(name: str) -> str:
    return normalize("NFC", normalize("NFC", name).casefold())
