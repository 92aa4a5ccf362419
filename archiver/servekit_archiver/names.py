# SPDX-License-Identifier: Apache-2.0
"""The file names that an archive may hold: they mean one file on every file system."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from unicodedata import category, normalize

from servekit_archiver.errors import ArchiveError
from servekit_archiver.strictjson import show

__all__ = [
    "FOREIGN_FOLDER",
    "MANIFEST",
    "RESERVED",
    "SIGNATURE",
    "file_in",
    "find_clashes",
    "invisible_character",
    "is_reserved",
    "name_problem",
    "parents",
]

RESERVED: Final = "MAR-INF"  #: the folder of the format itself
MANIFEST: Final = "MAR-INF/MANIFEST.json"
FOREIGN_FOLDER: Final = "FOREIGN-INF"  #: RESERVED of another format, in an archive made of it
SIGNATURE: Final = "MAR-INF/model.sig"  #: not listed in the manifest

PART_BYTES: Final = 255  # the limit of ext4, XFS, APFS and NTFS
NAME_BYTES: Final = 1024
PARTS: Final = 32
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
DRIVE: Final = re.compile(r"[A-Za-z]:")
WILD: Final = re.compile(r'[<>:"|?*]')  # streams, patterns and redirections on Windows
#: the devices of Windows, whatever follows the first dot
DEVICE: Final = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\xb9\xb2\xb3]) *(?:\..*)?", re.IGNORECASE
)

#: Characters that are not drawn according to Unicode 16 (Default_Ignorable_Code_Point of
#: DerivedCoreProperties.txt) but not to ``category``: fillers, joiners, variation selectors, tags,
#: and code points that are reserved for more of them. A table, so that every Python refuses the
#: same names.
IGNORABLE: Final = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff"
)
#: characters whose glyph is blank (the names list of the Unicode code charts): Braille pattern
#: blank, object replacement, null notehead, Khitan filler, and the two Egyptian blanks
BLANK: Final = "\u2800\ufffc\U0001d159\U00016fe4\U00013441\U00013442"
#: code points that stand for no character and never will (The Unicode Standard, 23.7)
NONCHARACTERS: Final = "\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
)
LISTED: Final = re.compile(f"[{IGNORABLE}{BLANK}{NONCHARACTERS}]")
#: format characters, line and paragraph separators, and spaces: that of ASCII is an ordinary one
CATEGORIES: Final = frozenset(("Cf", "Zl", "Zp", "Zs"))


def file_in(directory: Path, name: str, key: str) -> Path:
    """Return the path of a file or folder of *directory* that a file of the model names.

    Models come from strangers: the name is checked before anything is read or written.

    :param key: where the name is written, for the error.
    :raises ArchiveError: no archive may hold a file of this name: it would lead elsewhere.
    """
    if problem := name_problem(name):
        raise ArchiveError(f"{key}: {show(name)} {problem}")
    return directory / name


def name_problem(name: str) -> str | None:
    """Return why *name* may not be a file of an archive, or ``None``. A name is never changed."""
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
        return f"contains {found[0]}, which has another meaning on Windows"
    if part[-1] in ". ":
        return "has a part that ends in a dot or a space, which Windows removes"
    if DEVICE.fullmatch(part):
        return f"has the part '{part}', a device on Windows"
    return None


def invisible_character(text: str) -> str:
    """Return the first character of *text* that shows nothing, or ``""``."""
    if text.isascii():
        return ""
    return next((each for each in text if not each.isascii() and _is_invisible(each)), "")


def _is_invisible(character: str) -> bool:
    return category(character) in CATEGORIES or LISTED.match(character) is not None


def is_reserved(name: str) -> bool:
    """Say whether *name* lies in the folder that belongs to the format."""
    return _key(name.split("/", 1)[0]) == _key(RESERVED)


def parents(name: str) -> Iterator[str]:
    """Yield the folders above *name*, outermost first: ``a``, ``a/b`` for ``a/b/c``."""
    for index, character in enumerate(name):
        if character == "/":
            yield name[:index]


def find_clashes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of names that are the same file on some file system.

    Two names clash when they are equal, apart from case and Unicode form, or when
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
