# SPDX-License-Identifier: Apache-2.0
"""Archives of other formats: read safely, and unpacked once by the plugin that knows them."""

import io
import json
import os
import tarfile
import zipfile

import pytest
from servekit_archiver import (
    ArchiveError,
    ForeignArchive,
    Limits,
    hookimpl,
    load_directory,
    open_foreign_archive,
    unpack,
)
from servekit_archiver.cache.stamps import title_of
from servekit_archiver.plugins import HookManager

MANIFEST = "MAR-INF/MANIFEST.json"
FILES = {MANIFEST: b'{"runtime": "python"}', "handler.py": b"x = 1\n", "data/a.txt": b"a" * 5000}


def write_zip(path, files=FILES, **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path


def write_tar(path, members):
    with tarfile.open(path, "w:gz") as file:
        for info, content in members:
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def member(name, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def contents(directory):
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def extract(path, into, folder="", **options):
    into.mkdir()
    with open_foreign_archive(path, **options) as archive:
        archive.extract(into, folder)
    return contents(into)


class Known:
    """A plugin that knows files whose manifest has the member ``runtime``."""

    def __init__(self):
        self.unpacked = 0

    @hookimpl
    def unpack_archive(self, path, directory):
        with open_foreign_archive(path) as archive:
            if archive is None or MANIFEST not in archive.names:
                return None
            if "runtime" not in json.loads(archive.read(MANIFEST)):
                return None
            self.unpacked += 1
            archive.extract(directory)
        return True

    @hookimpl
    def recognise_model(self, directory):
        return {"service": "known"} if (directory / "handler.py").is_file() else None


@pytest.fixture
def plugin(monkeypatch):
    """Return the only plugin that is installed."""
    known = Known()
    monkeypatch.setattr(HookManager, "discover", lambda self: self.register(known, "known"))
    return known


def test_a_zip_file_is_extracted(tmp_path):
    found = extract(write_zip(tmp_path / "a.zip"), tmp_path / "out")

    assert found == FILES
    assert not os.access(tmp_path / "out/handler.py", os.W_OK) or os.geteuid() == 0


def test_a_folder_of_a_tar_file_is_extracted_without_its_name(tmp_path):
    members = [(member("./echo/a.py"), b"1"), (member("other/b.py"), b"2")]
    path = write_tar(tmp_path / "a.tar.gz", members)

    assert extract(path, tmp_path / "out", "echo") == {"a.py": b"1"}


@pytest.mark.parametrize("content", [b"", b"PK", b"\x1f\x8bnot gzip", b"PK\x03\x04" + b"x" * 100])
def test_a_file_of_no_known_kind_is_no_archive(tmp_path, content):
    (tmp_path / "a").write_bytes(content)

    with open_foreign_archive(tmp_path / "a") as archive:
        assert archive is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("../a", "contains the part '..'", id="above"),
        pytest.param("/etc/a", "is an absolute path", id="absolute"),
        pytest.param("a/./b", "contains the part '.'", id="dot"),
        pytest.param("a:b", "starts with a drive letter", id="drive"),
    ],
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name, reason, kind):
    path = (
        write_zip(tmp_path / "a", {name: b""})
        if kind == "zip"
        else write_tar(tmp_path / "a", [(member(name), b"")])
    )

    with pytest.raises(ArchiveError, match=reason):
        extract(path, tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_what_is_not_a_regular_file_is_refused(tmp_path, kind):
    path = write_tar(tmp_path / "a", [(member("link", kind, "/etc/passwd"), b"")])

    with pytest.raises(ArchiveError, match="'link': is not a regular file"):
        extract(path, tmp_path / "out")


def test_a_link_in_a_zip_file_is_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a", "w") as file:
        file.writestr(info, "/etc/passwd")

    with pytest.raises(ArchiveError, match="'link': is not a regular file"):
        extract(tmp_path / "a", tmp_path / "out")


@pytest.mark.parametrize(
    ("files", "limits", "reason"),
    [
        pytest.param({"a": b"0" * (4 << 20)}, Limits(), "limit 200:1", id="ratio"),
        pytest.param({"a": b"0" * 9}, Limits(file_bytes=8), "is 9 bytes, limit 8", id="file"),
        pytest.param({"a": b"00", "b": b"00"}, Limits(total_bytes=3), "limit 3", id="total"),
        pytest.param({"a": b"", "b": b""}, Limits(entries=1), "has 2 files, limit 1", id="files"),
        pytest.param({"a": b"", "A": b""}, Limits(), "clashes with 'a'", id="clash"),
    ],
)
def test_a_limit_holds(tmp_path, files, limits, reason):
    path = write_zip(tmp_path / "a", files)

    with pytest.raises(ArchiveError, match=reason):
        extract(path, tmp_path / "out", limits=limits)


def test_a_tar_file_that_unpacks_to_too_much_is_not_listed(tmp_path):
    path = write_tar(tmp_path / "a", [(member("a"), b"0" * (4 << 20))])

    with pytest.raises(ArchiveError, match="unpacks to more than"), open_foreign_archive(path):
        pass


def test_a_tar_file_of_very_many_folders_is_not_listed(tmp_path):
    path = write_tar(tmp_path / "a", [(member("a", tarfile.DIRTYPE), b"")] * 50)

    with (
        pytest.raises(ArchiveError, match="unpacks to more than 0 bytes or 20 entries"),
        open_foreign_archive(path, Limits(entries=10)),
    ):
        pass


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_header_of_many_bytes_in_a_tar_file_is_not_unpacked(tmp_path, kind):
    header = (member("././@LongLink", kind), b"a" * (8 << 20))
    path = write_tar(tmp_path / "a", [(member("b"), b""), header, (member("c"), b"")])

    with (
        pytest.raises(ArchiveError, match="header of 8388608 bytes"),
        open_foreign_archive(path),
    ):
        pass


def test_a_tar_file_with_long_names_is_extracted(tmp_path):
    names = [f"{'a' * 90}/{'b' * 90}/{number}" for number in range(9)]
    path = write_tar(tmp_path / "a", [(member(name), b"1") for name in names])

    assert extract(path, tmp_path / "out") == dict.fromkeys(names, b"1")


def test_damaged_content_is_refused(tmp_path):
    path = tmp_path / "a"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a", b"content")
    path.write_bytes(path.read_bytes().replace(b"content", b"changed"))

    with pytest.raises(ArchiveError, match="'a': cannot be read: Bad CRC-32"):
        extract(path, tmp_path / "out")


def test_a_plugin_unpacks_what_is_not_ours_once(tmp_path, plugin):
    path = write_zip(tmp_path / "iris.mar")
    first, second = unpack(path, tmp_path / "cache"), unpack(path, tmp_path / "cache")

    assert plugin.unpacked == 1
    assert contents(first.directory) == FILES
    assert (first.manifest.name, first.manifest.service) == ("iris", "known")
    assert first == second


def test_a_copy_has_the_same_content(tmp_path, plugin):
    first = unpack(write_zip(tmp_path / "a.mar"), tmp_path / "cache")
    (tmp_path / "b.mar").write_bytes((tmp_path / "a.mar").read_bytes())

    assert unpack(tmp_path / "b.mar", tmp_path / "cache").directory == first.directory
    assert plugin.unpacked == 1


def test_unpacked_content_that_was_changed_is_unpacked_again(tmp_path, plugin):
    path = write_zip(tmp_path / "a.mar")
    directory = unpack(path, tmp_path / "cache").directory
    (directory / "handler.py").chmod(0o600)
    (directory / "handler.py").write_bytes(b"x = 2\n")
    unpack(path, tmp_path / "cache")

    assert contents(directory) == FILES


def test_content_that_another_process_has_unpacked_meanwhile_is_kept(tmp_path, plugin):
    path = write_zip(tmp_path / "a.mar")
    first = unpack(path, tmp_path / "cache")
    inode = first.directory.stat().st_ino
    (tmp_path / "cache/verified" / first.digest).unlink()

    assert unpack(path, tmp_path / "cache") == first
    assert first.directory.stat().st_ino == inode


def test_what_people_call_it_is_remembered(tmp_path, plugin):
    found = unpack(write_zip(tmp_path / "iris.mar"), tmp_path / "cache")

    assert title_of(tmp_path / "cache/verified", found.digest) == "iris/1.0"


def test_files_that_the_model_adds_to_its_content_are_kept(tmp_path, plugin):
    path = write_zip(tmp_path / "a.mar")
    directory = unpack(path, tmp_path / "cache").directory
    (directory / "unzipped.txt").write_bytes(b"")
    unpack(path, tmp_path / "cache")

    assert (directory / "unzipped.txt").is_file()


def test_an_archive_that_no_plugin_knows_is_refused_as_ever(tmp_path, plugin):
    path = write_zip(tmp_path / "a.mar", {"a.txt": b""})

    with pytest.raises(ArchiveError, match="is not a model archive: it has no MAR-INF"):
        unpack(path, tmp_path / "cache")


def test_a_file_that_is_replaced_while_it_is_unpacked_is_not_kept(tmp_path, plugin, monkeypatch):
    path, newer = write_zip(tmp_path / "a.mar"), {**FILES, "handler.py": b"x = 2\n"}
    extracted = ForeignArchive.extract

    def extract_newer(_archive, directory):
        write_zip(tmp_path / "newer", newer).replace(path)
        with open_foreign_archive(path) as archive:
            extracted(archive, directory)

    with monkeypatch.context() as patch:
        patch.setattr(ForeignArchive, "extract", extract_newer)
        with pytest.raises(ArchiveError, match="has changed while it was unpacked"):
            unpack(path, tmp_path / "cache")

    assert contents(unpack(path, tmp_path / "cache").directory) == newer
    assert contents(unpack(write_zip(path), tmp_path / "cache").directory) == FILES


def test_nothing_is_left_of_an_archive_that_a_plugin_refuses(tmp_path, plugin):
    path = write_zip(tmp_path / "a.mar", {**FILES, "../b": b""})

    with pytest.raises(ArchiveError, match=r"contains the part '\.\.'"):
        unpack(path, tmp_path / "cache")
    assert list((tmp_path / "cache/models").iterdir()) == []


def test_a_directory_with_the_manifest_of_another_format_is_recognised(tmp_path, plugin):
    with zipfile.ZipFile(write_zip(tmp_path / "a.zip")) as file:
        file.extractall(tmp_path / "echo")

    assert load_directory(tmp_path / "echo").service == "known"


def test_a_manifest_that_no_plugin_knows_is_refused_as_one_of_ours(tmp_path, plugin):
    (tmp_path / "a/MAR-INF").mkdir(parents=True)
    (tmp_path / "a" / MANIFEST).write_bytes(FILES[MANIFEST])

    with pytest.raises(ArchiveError, match="format: is missing; runtime looks like"):
        load_directory(tmp_path / "a")
