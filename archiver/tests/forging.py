# SPDX-License-Identifier: Apache-2.0
"""Archives forged record by record, sound or not."""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_IFREG

from servekit_archiver.names import MANIFEST
from servekit_archiver.zip.format import CENTRAL, END, LOCAL

__all__ = ["Forge", "Item", "deflate", "forge_zip", "manifest_item"]


@dataclass
class Item:
    """One entry to forge. What is ``None`` is worked out from the content."""

    name: str | bytes
    content: bytes = b""
    method: int = 0
    packed: bytes | None = None
    size: int | None = None
    packed_size: int | None = None
    crc: int | None = None
    flags: int | None = None
    mode: int = S_IFREG | 0o644
    dos: int = 0
    version: int = 20
    disk: int = 0
    extra: bytes = b""
    local_extra: bytes = b""
    comment: bytes = b""
    local: Mapping[str, int | bytes] | None = None  # what the local header says instead
    at: int | None = None  # offset in the central directory
    hidden: bool = False  # not in the central directory
    listed: bool = True  # in the manifest
    sha256: str | None = None

    def raw_name(self) -> bytes:
        return self.name if isinstance(self.name, bytes) else self.name.encode()

    def data(self) -> bytes:
        if self.packed is not None:
            return self.packed
        return deflate(self.content) if self.method == 8 else self.content

    def numbers(self, **other: int) -> tuple[int, ...]:
        flags = self.flags
        if flags is None:
            flags = 0 if self.raw_name().isascii() else 1 << 11
        values = {
            "version": self.version,
            "flags": flags,
            "method": self.method,
            "time": 0,
            "date": 33,
            "crc": zlib.crc32(self.content) if self.crc is None else self.crc,
            "packed_size": len(self.data()) if self.packed_size is None else self.packed_size,
            "size": len(self.content) if self.size is None else self.size,
        }
        return tuple({**values, **other}.values())


def deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def forge_zip(items: list[Item], *, prefix: bytes = b"", gap: bytes = b"", **end: int) -> bytes:
    """Return a zip file of *items* exactly as they say, sound or not."""
    out, central = prefix, b""
    count = 0
    for item in items:
        at, name = len(out) if item.at is None else item.at, item.raw_name()
        local = dict(item.local or {})
        local_name = bytes(local.pop("name", name))
        lengths = len(local_name), len(item.local_extra)
        out += LOCAL.pack(*item.numbers(**local), *lengths) + local_name + item.local_extra
        out += item.data()
        if not item.hidden:
            count += 1
            sizes = len(name), len(item.extra), len(item.comment), item.disk, 0
            attributes = item.mode << 16 | item.dos
            central += CENTRAL.pack(3 << 8 | 20, *item.numbers(), *sizes, attributes, at)
            central += name + item.extra + item.comment
    out += gap
    values = {"disk": 0, "start": 0, "here": count, "count": count, "size": len(central)}
    values |= {"offset": len(out), "comment": 0, **end}
    return out + central + END.pack(*values.values())


def manifest_item(items: list[Item], **keys: object) -> Item:
    """Return the entry of a manifest that lists *items*."""
    files = {
        item.raw_name().decode("utf-8", "replace"): {
            "size": len(item.content),
            "sha256": item.sha256 or hashlib.sha256(item.content).hexdigest(),
        }
        for item in items
        if item.listed
    }
    table = {"format": 1, "created_by": "a forger", "name": "m", "service": "onnx", "files": files}
    return Item(MANIFEST, json.dumps(table | keys).encode(), listed=False)


@dataclass
class Forge:
    """Writes forged archives."""

    path: Path

    def __call__(self, *items: Item, manifest: Mapping[str, object] | None = None, **how) -> Path:
        """Write an archive of *items* and a manifest that lists them; return its path."""
        every = [*items, manifest_item(list(items), **(manifest or {}))]
        return self.raw(forge_zip(every, **how))

    def raw(self, content: bytes) -> Path:
        """Write *content* as an archive file."""
        self.path.write_bytes(content)
        return self.path
