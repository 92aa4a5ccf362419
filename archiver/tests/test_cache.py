# SPDX-License-Identifier: Apache-2.0
import errno
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from servekit_archiver import ArchiveError, build_archive, default_cache_dir, unpack
from servekit_archiver.cache.holding import discard, hold
from servekit_archiver.names import MANIFEST

from archiver.tests.forging import Item

PATIENCE_S = 120


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def everything(cache):
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*"))


def models(cache):
    return [path.name for path in (cache / "models").iterdir()]


def reads(archive, cache):
    """Return how many steps of work unpacking took: none when warm."""
    steps = []
    unpack(archive, cache, lambda *step: steps.append(step))
    return len(steps)


def test_content_is_unpacked_once_read_only(archive, model, cache):
    unpacked = unpack(archive, cache)

    assert unpacked.directory == cache / "models" / unpacked.digest
    assert (unpacked.directory / "weights.npy").read_bytes() == (model / "weights.npy").read_bytes()
    assert (unpacked.directory / MANIFEST).is_file()
    files = [path for path in unpacked.directory.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o444}
    assert (cache / "models").stat().st_mode & 0o777 == 0o700
    assert len(models(cache)) == 1


def test_a_warm_start_reads_no_content(archive, cache):
    assert reads(archive, cache) > 0
    assert reads(archive, cache) == 0


def test_a_touched_or_copied_archive_is_verified_anew(archive, cache, tmp_path):
    unpack(archive, cache)
    os.utime(archive, ns=(1, 1))
    copy = shutil.copy(archive, tmp_path / "copy.mar")

    assert (reads(archive, cache) > 0, reads(copy, cache) > 0) == (True, True)
    assert (reads(archive, cache), reads(copy, cache)) == (0, 0)
    assert len(models(cache)) == 1


def test_an_archive_that_changed_since_is_refused_although_its_content_is_cached(archive, cache):
    unpack(archive, cache)
    content = bytearray(archive.read_bytes())
    content[content.index(bytes(range(256)))] ^= 1
    archive.write_bytes(content)

    for _ in range(2):
        with pytest.raises(ArchiveError, match=r"entry 'weights\.npy'"):
            unpack(archive, cache)


@pytest.mark.parametrize("harm", ["remove", "cut", "empty"])
def test_a_damaged_cache_is_made_whole(archive, cache, harm):
    directory = unpack(archive, cache).directory
    file = directory / "weights.npy"
    if harm == "remove":
        file.unlink()
    elif harm == "cut":
        file.chmod(0o600)
        file.write_bytes(b"")
    else:
        shutil.rmtree(directory)
        directory.mkdir()

    unpack(archive, cache)

    assert len(file.read_bytes()) == 2048
    assert models(cache) == [directory.name]


def test_two_archives_of_one_content_share_it(archive, model, cache, tmp_path):
    other = build_archive(model, tmp_path / "other-name.mar")

    assert unpack(archive, cache).directory == unpack(other, cache).directory


def test_a_refused_archive_leaves_nothing_behind(forge, cache):
    path = forge(Item("a", b"good"), Item("b", b"bad", sha256="0" * 64))

    with pytest.raises(ArchiveError, match="entry 'b': its SHA-256"):
        unpack(path, cache)

    assert everything(cache) == ["models", "verified"]


def test_what_a_killed_process_left_is_removed(archive, cache):
    (cache / "models").mkdir(parents=True, mode=0o700)
    abandoned = cache / "models" / ".unpacking-abandoned"
    abandoned.mkdir()
    (abandoned / "half").write_text("x")

    unpack(archive, cache)

    assert not abandoned.exists()


def run(code, *arguments, **how):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how
    )


UNPACK = """
import sys
from servekit_archiver import ArchiveError, unpack
try:
    print(unpack(sys.argv[1], sys.argv[2]).directory)
except ArchiveError as error:
    sys.exit(f"refused: {error}")
"""


def test_many_processes_may_unpack_at_once(archive, cache):
    processes = [run(UNPACK, archive, cache) for _ in range(8)]

    results = [process.communicate(timeout=PATIENCE_S) for process in processes]

    assert {(out.strip(), err) for out, err in results} == {
        (str(unpack(archive, cache).directory), "")
    }
    assert len(models(cache)) == 1


KILLED = """
import sys, time
from servekit_archiver import unpack
def wait(done, total):
    print("half", flush=True)
    time.sleep(60)
unpack(sys.argv[1], sys.argv[2], wait)
"""


def test_a_process_at_work_is_left_alone_and_one_killed_is_cleaned_up(archive, cache):
    process = run(KILLED, archive, cache)
    assert process.stdout.readline() == "half\n"
    unpack(archive, cache)
    assert len(models(cache)) == 2
    process.kill()
    process.communicate(timeout=PATIENCE_S)

    shutil.rmtree(unpack(archive, cache).directory)
    unpack(archive, cache)

    assert len(models(cache)) == 1


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_full_disk_is_named_and_leaves_nothing_behind(archive, cache):
    """A limit on the size of files stands in for the disk: both fail in the midst of a write."""
    process = run(UNPACK, archive, cache, preexec_fn=limit_file_size)

    _, err = process.communicate(timeout=PATIENCE_S)

    assert err == f"refused: {archive}: entry 'weights.npy': {os.strerror(errno.EFBIG)}\n"
    assert everything(cache) == ["models", "verified"]


@pytest.fixture
def small_disk(tmp_path):
    """Mount file systems of a given size; they are gone at the end."""
    mounted = []

    def mount(options):
        disk = tmp_path / f"disk-{len(mounted)}"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", str(disk)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("mounting is not permitted here")
        mounted.append(disk)
        return disk

    yield mount
    for disk in mounted:
        subprocess.run(["umount", str(disk)], check=True)


def test_too_little_space_is_refused_before_anything_is_written(model, tmp_path, small_disk):
    full = small_disk("size=1m")
    (model / "big.npy").write_bytes(bytes(2 << 20))
    path = build_archive(model, tmp_path / "big.mar")

    with pytest.raises(ArchiveError, match=r"No space left on device: .* bytes needed"):
        unpack(path, full)

    assert everything(full) == ["models", "verified"]


def test_a_disk_that_fills_up_in_the_midst_is_as_it_was_before(archive, small_disk):
    full = small_disk("size=1m,nr_inodes=8")  # room for the bytes, not for the files

    with pytest.raises(ArchiveError, match=r"entry '.*': No space left on device"):
        unpack(archive, full)

    assert everything(full) == ["models", "verified"]


def test_a_cache_that_others_may_write_to_is_refused(archive, cache):
    (cache / "models").mkdir(parents=True)
    (cache / "models").chmod(0o777)

    with pytest.raises(ArchiveError, match=r"models: others may write to it \(mode 0o777\)"):
        unpack(archive, cache)


def test_a_cache_of_somebody_else_is_refused(archive, cache):
    if os.geteuid():
        pytest.skip("only root may give a directory away")
    (cache / "models").mkdir(parents=True, mode=0o700)
    os.chown(cache / "models", 12345, 12345)

    with pytest.raises(ArchiveError, match="models: belongs to user 12345, not to 0"):
        unpack(archive, cache)


def test_a_cache_that_cannot_be_made_is_refused(archive, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ArchiveError, match="Not a directory"):
        unpack(archive, tmp_path / "file" / "cache")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SERVEKIT_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"SERVEKIT_CACHE_DIR": "", "XDG_CACHE_HOME": "/b"}, "/b/servekit"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/servekit"),
        ({"HOME": "/h"}, "/h/.cache/servekit"),
    ],
)
def test_the_cache_is_where_the_environment_says(monkeypatch, variables, expected):
    for name in ("SERVEKIT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert default_cache_dir() == Path(expected)


def test_a_bomb_is_refused_in_no_time_and_writes_nothing(forge, cache):
    path = forge(Item("zeros", bytes(10**7), method=8))
    start = time.monotonic()

    with pytest.raises(ArchiveError, match=r"entry 'zeros': unpacks .* bytes to 10000000"):
        unpack(path, cache)

    assert time.monotonic() - start < 10
    assert everything(cache) == ["models", "verified"]


@pytest.mark.parametrize("name", ["weights.npy", MANIFEST])
@pytest.mark.parametrize("keeps_times", [False, True])
def test_a_file_that_was_changed_in_the_cache_is_replaced(archive, cache, name, keeps_times):
    """The inode change time tells, which nobody can set."""
    file = unpack(archive, cache).directory / name
    before, content = file.stat(), file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    file.chmod(0o444)
    if keeps_times:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert (unpack(archive, cache).directory / name).read_bytes() == content
    assert reads(archive, cache) == 0


def test_a_link_in_place_of_a_cached_file_is_replaced(archive, cache, tmp_path):
    file = unpack(archive, cache).directory / "weights.npy"
    other = tmp_path / "other"
    file.rename(other)
    file.symlink_to(other)

    assert not (unpack(archive, cache).directory / "weights.npy").is_symlink()


def test_a_cache_that_was_only_copied_is_read_once_and_not_unpacked(archive, cache, tmp_path):
    unpack(archive, cache)
    moved = shutil.copytree(cache, tmp_path / "moved")
    inode = (unpack(archive, moved).directory / "weights.npy").stat().st_ino

    assert inode == (unpack(archive, moved).directory / "weights.npy").stat().st_ino
    assert reads(archive, moved) == 0


def test_what_somebody_holds_is_not_discarded(archive, cache):
    directory = unpack(archive, cache).directory
    held = [hold(directory), hold(directory)]
    for descriptor in held:
        discard(directory)
        assert models(cache) == [directory.name]
        os.close(descriptor)
    discard(directory)

    assert hold(directory) is None
    assert models(cache) == []
    assert directory.name not in [path.name for path in (cache / "verified").iterdir()]


def test_what_nobody_has_used_for_a_month_goes_when_there_is_something_new(
    archive, model, cache, tmp_path
):
    old = unpack(archive, cache).directory
    kept = []
    for name, is_held in (("held", True), ("other", False)):
        (model / "extra").write_text(name)
        path = build_archive(model, tmp_path / f"{name}.mar")
        directory = unpack(path, cache).directory
        kept.append(directory.name)
        if is_held:
            descriptor = hold(directory)
    for path in (old, cache / "verified" / old.name, *(cache / "models" / kept[0],)):
        os.utime(path, (1, 1))
    os.utime(cache / "verified" / kept[0], (1, 1))
    (model / "extra").write_text("newest")
    newest = unpack(build_archive(model, tmp_path / "newest.mar"), cache).directory
    os.close(descriptor)

    assert sorted(models(cache)) == sorted([*kept, newest.name])
