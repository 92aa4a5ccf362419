# SPDX-License-Identifier: Apache-2.0
"""The records of a zip file as APPNOTE.TXT 6.3 lays them out, and no policy.

A zip file is a run of entries (a local header, then the packed bytes), the central
directory that lists them, and an end record that says where that is. The ZIP64 forms
carry what does not fit in 32 bits.
"""

import struct
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "ALIGNMENT",
    "CENTRAL",
    "DEFLATED",
    "END",
    "END64",
    "EXTRA_ALIGNMENT",
    "EXTRA_ZIP64",
    "LOCAL",
    "LOCATOR64",
    "MAX16",
    "MAX32",
    "NEWEST_VERSION",
    "STORED",
    "UTF8",
    "RecordLayout",
    "ZipEntry",
    "extra_fields",
]

STORED: Final = 0
DEFLATED: Final = 8
UTF8: Final = 1 << 11  #: flag: the name is UTF-8
MAX16: Final = 0xFFFF  #: this and MAX32 mean "see the ZIP64 form"
MAX32: Final = 0xFFFF_FFFF
NEWEST_VERSION: Final = 45  #: ZIP64; later versions bring other packing and encryption
ALIGNMENT: Final = 64  #: where a stored file begins, so that arrays in it can be mapped

EXTRA_ZIP64: Final = 0x0001
EXTRA_ALIGNMENT: Final = 0xD935  #: alignment (u16), then zeros; Android's zipalign writes the same


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The layout of one fixed-size record after its four-byte signature."""

    signature: bytes
    layout: str

    @property
    def size(self) -> int:
        return 4 + struct.calcsize(self.layout)

    def pack(self, *values: int) -> bytes:
        return self.signature + struct.pack(self.layout, *values)

    def unpack(self, raw: bytes) -> tuple[int, ...] | None:
        """Return the values, or ``None`` if *raw* is too short or not such a record."""
        if len(raw) < self.size or not raw.startswith(self.signature):
            return None
        return struct.unpack_from(self.layout, raw, 4)


#: version needed, flags, method, time, date, CRC, packed size, size, name length, extra length
LOCAL: Final = RecordLayout(b"PK\x03\x04", "<5H3L2H")
#: made by, then as in LOCAL; comment length, disk, internal, external attributes, offset
CENTRAL: Final = RecordLayout(b"PK\x01\x02", "<6H3L5H2L")
#: disk, disk of the directory, entries here, entries, directory size, offset, comment length
END: Final = RecordLayout(b"PK\x05\x06", "<4H2LH")
#: record size, made by, version needed, disk, disk of the directory, entries here, entries,
#: directory size, offset
END64: Final = RecordLayout(b"PK\x06\x06", "<Q2H2L4Q")
#: disk of END64, offset of END64, number of disks
LOCATOR64: Final = RecordLayout(b"PK\x06\x07", "<LQL")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipEntry:
    """The record of one file or folder in the central directory."""

    name: str  #: without the ``/`` that ends a folder's
    raw_name: bytes = field(repr=False)
    is_folder: bool
    version: int  #: version of the zip format that is needed to unpack it
    flags: int
    method: int
    stamp: tuple[int, int]  #: MS-DOS time and date; means nothing here
    crc: int
    packed_size: int
    size: int
    offset: int  #: where the local header begins
    attributes: int
    disk: int
    comment_size: int
    start: int = 0  #: where the packed bytes begin

    @property
    def end(self) -> int:
        """The first byte after the packed ones."""
        return self.start + self.packed_size


def extra_fields(raw: bytes) -> list[tuple[int, bytes]]:
    """Return the (identifier, content) pairs of an extra field.

    :raises ValueError: the lengths inside do not add up.
    """
    found = []
    while raw:
        if len(raw) < 4:
            raise ValueError("has an extra field cut short")
        identifier, size = struct.unpack_from("<2H", raw)
        if len(raw) < 4 + size:
            raise ValueError("has an extra field cut short")
        found.append((identifier, raw[4 : 4 + size]))
        raw = raw[4 + size :]
    return found
