# SPDX-License-Identifier: Apache-2.0
"""Which files are archives of MMS, and which of those are refused."""

import io
import tarfile
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from servekit_archiver import ArchiveError
from servekit_mms.unpacking import unpack

from .conftest import pack, write_handler, write_legacy


@pytest.fixture
def target(tmp_path):
    (tmp_path / "content").mkdir()
    return tmp_path / "content"


def unpacked(path, target):
    """Return the names of the files of *path*; ``None`` if it is not an archive of MMS."""
    if unpack(path, target, lambda done, total: None) is None:
        return None
    return sorted(file.relative_to(target).as_posix() for file in target.rglob("*.*"))


LEGACY = ["MANIFEST.json", "greeting.txt", "service.py", "signature.json"]
HANDLER = ["MAR-INF/MANIFEST.json", "service.py"]


@pytest.mark.parametrize(
    ("write", "arguments", "suffix", "names"),
    [
        (write_legacy, (), ".model", LEGACY),
        (write_legacy, (), ".zip", LEGACY),
        (write_handler, ("",), ".mar", HANDLER),
        (write_handler, ("",), ".tar.gz", HANDLER),
    ],
)
def test_archives_are_unpacked_whatever_their_suffix(
    tmp_path, target, write, arguments, suffix, names
):
    path = pack(write(tmp_path / "a", *arguments), tmp_path / f"a{suffix}")

    assert unpacked(path, target) == names


def test_other_files_are_left_to_others(tmp_path, target):
    (tmp_path / "text").write_text("PK")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "MANIFEST.json").write_text("{}")
    zipped = pack(tmp_path / "other", tmp_path / "other.zip")

    assert unpacked(tmp_path / "text", target) is None
    assert unpacked(zipped, target) is None


@pytest.mark.parametrize(
    ("name", "content"),
    [("../evil.py", b""), ("/evil.py", b""), ("greeting.txt", b""), ("zeros", bytes(1 << 26))],
    ids=["above", "absolute", "twice", "a bomb"],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entries_that_are_not_safe_are_refused(tmp_path, target, name, content):
    path = pack(write_legacy(tmp_path / "a"), tmp_path / "a.model")
    with ZipFile(path, "a", ZIP_DEFLATED) as archive:
        archive.writestr(name, content)

    with pytest.raises(ArchiveError):
        unpack(path, target, lambda done, total: None)
    assert not list(tmp_path.glob("evil*"))


def test_links_are_refused(tmp_path, target):
    path = pack(write_handler(tmp_path / "a", ""), tmp_path / "a.tar.gz")
    link = tarfile.TarInfo("a/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(path) as old:
        members = [(each, old.extractfile(each).read() if each.isfile() else b"") for each in old]
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
        archive.addfile(link)

    with pytest.raises(ArchiveError, match="not a regular file"):
        unpack(path, target, lambda done, total: None)
