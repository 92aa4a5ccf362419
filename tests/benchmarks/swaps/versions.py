# SPDX-License-Identifier: Apache-2.0
"""The versions of the model, and the ways in which some of them are broken."""

import zipfile
from pathlib import Path
from typing import Final, NamedTuple

from servekit_archiver import build_archive

#: what is wrong with a version, and what corresponds to it in Ray Serve
WAYS: Final = {
    "digest": "a file of the archive is not what its digest says",
    "load": "`load` raises",
    "example": "it answers otherwise than its example says",
    "requirement": "two requirements contradict each other",
    "truncated": "the end of the archive is missing",
    "exit": "the process ends in `load`",
}
ERRS: Final = "errs"  #: not among them: it loads, and then one answer in five is an error
EVERY: Final = 3  #: each third new version is broken

SERVICE: Final = """
import os
from packed import VERSION
from servekit import Service


class Digits(Service):
    def load(self, context):
        self.version = context.version
        if {way!r} == "load":
            raise RuntimeError("these weights do not fit")
        if {way!r} == "exit":
            os._exit(1)

    def predict(self, batch):
        if {way!r} == "errs" and any(number % 5 == 4 for number in batch):
            raise RuntimeError("a mistake that the example does not show")
        return [{{"id": number, "loaded": self.version, "packed": VERSION}} for number in batch]
"""
CONFLICT: Final = "msgspec==0.18.6\nmsgspec==0.19.0\n"
MODEL: Final = """
name = "digits"
version = "{version}"
service = "service:Digits"
{requirements}
[batching]
max_batch_size = 1

[worker]
replicas = 2

[[examples]]
input = 0
output = {{ id = 0, loaded = "{expected}", packed = "{version}" }}
"""


class Version(NamedTuple):
    """One version, and what is wrong with it."""

    name: str
    way: str = ""  #: a key of ``WAYS``, or ``ERRS``; "" is a good one


def sequence(swaps: int) -> list[Version]:
    """Return the versions that follow version 1; each broken one is broken in the next way."""
    ways = list(WAYS)
    return [
        Version(str(number + 1), "" if number % EVERY else ways[number // EVERY % len(ways) - 1])
        for number in range(1, swaps + 1)
    ]


def build(directory: Path, version: Version) -> Path:
    """Build the archive of *version* in *directory*."""
    source = directory / f"digits-{version.name}"
    source.mkdir()
    requirements = ""
    if version.way == "requirement":
        (source / "requirements.txt").write_text(CONFLICT, encoding="utf-8")
        requirements = 'requirements = "requirements.txt"\n'
    expected = "another" if version.way == "example" else version.name
    model = MODEL.format(version=version.name, requirements=requirements, expected=expected)
    (source / "model.toml").write_text(model, encoding="utf-8")
    (source / "service.py").write_text(SERVICE.format(way=version.way), encoding="utf-8")
    (source / "packed.py").write_text(f"VERSION = {version.name!r}\n", encoding="utf-8")
    archive = Path(build_archive(source, directory / f"digits-{version.name}.mar").path)
    spoil(archive, version.way)
    return archive


def spoil(archive: Path, way: str) -> None:
    """Damage an archive, as somebody who edits it or a download that breaks off does."""
    if way == "digest":
        with zipfile.ZipFile(archive) as old:
            entries = [(entry, old.read(entry)) for entry in old.infolist()]
        with zipfile.ZipFile(archive, "w") as new:
            for entry, content in entries:
                added = b"# edited\n" if entry.filename == "service.py" else b""
                new.writestr(entry, content + added)
    elif way == "truncated":
        content = archive.read_bytes()
        archive.write_bytes(content[: len(content) * 2 // 3])
