# SPDX-License-Identifier: Apache-2.0
"""Lies in a sound archive: it is refused in one line, or holds exactly what it held before."""

import re
import shutil
import struct
from stat import S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servekit_archiver import ArchiveError, open_archive
from servekit_archiver.zip.format import CENTRAL, END, END64, LOCAL, LOCATOR64

from archiver.tests.forging import Item, forge_zip, manifest_item

QUIET = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FILES = [
    Item("a.txt", b"hello " * 40, method=8),
    Item("d/", mode=S_IFDIR | 0o755, dos=0x10, listed=False),
    Item("d/w.npy", bytes(range(200)), local_extra=b"\x35\xd9\x04\0\x40\0\0\0"),
    Item("d/\u00e9", b"", extra=b"\x55\x54\x05\0\1\0\0\0\0"),
]
CONTENT = {item.name: item.content for item in FILES if item.listed}


def with_zip64(content):
    """Return *content* with ZIP64 end records that say the same, needlessly."""
    end = END.unpack(content[-END.size :])
    at = len(content) - END.size
    wide = END64.pack(END64.size - 12, 45, 45, 0, 0, *end[2:6])
    return content[:at] + wide + LOCATOR64.pack(0, at, 1) + content[at:]


def numbers(content):
    """Return where each number of each record of *content* lies, and its format."""
    found = []
    for record in (LOCAL, CENTRAL, END64, LOCATOR64, END):
        kinds = "".join(
            int(n or 1) * kind for n, kind in re.findall(r"(\d*)([HLQ])", record.layout)
        )
        for match in re.finditer(re.escape(record.signature), content):
            at = match.start()
            for kind in "L" + kinds:  # the signature is one too
                found.append((at, f"<{kind}"))
                at += struct.calcsize(f"<{kind}")
    return found


PLAIN = forge_zip([*FILES, manifest_item(FILES)])
SEEDS = {"plain": PLAIN, "with needless ZIP64": with_zip64(PLAIN)}
VALUES = st.sampled_from([0, 1, 2, 8, 0x7FFF, 0xFFFF, 0xFFFF_FFFF, 1 << 31, (1 << 64) - 1])


def unpacked(path, content, tmp_path):
    """Return what *content* unpacks to by name, or ``None``: it is refused, nothing is left."""
    path.write_bytes(content)
    target = tmp_path / "target"
    try:
        with open_archive(path) as archive:
            archive.extract(target)
    except ArchiveError as error:
        assert str(error).isprintable()  # noqa: PT017 - any number of refusals is right
        assert str(error).startswith(str(path))  # noqa: PT017
        assert sorted(tmp_path.iterdir()) == [path]
        return None
    assert sorted(tmp_path.iterdir()) == [path, target]
    found = {
        str(file.relative_to(target)): file.read_bytes()
        for file in target.rglob("*")
        if not file.is_dir()
    }
    shutil.rmtree(target)
    return found


def test_a_sound_archive_is_unpacked(tmp_path):
    assert unpacked(tmp_path / "a.mar", PLAIN, tmp_path) == CONTENT


@pytest.mark.slow
@pytest.mark.parametrize("content", SEEDS.values(), ids=SEEDS)
@QUIET
@given(data=st.data())
def test_numbers_that_lie_never_change_the_content_unseen(tmp_path, content, data):
    lies = bytearray(content)
    for _ in range(data.draw(st.sampled_from([1, 1, 1, 2, 3]))):
        at, kind = data.draw(st.sampled_from(numbers(content)))
        (truth,) = struct.unpack_from(kind, content, at)
        value = data.draw(VALUES | st.sampled_from([truth - 1, truth + 1, truth * 2]))
        struct.pack_into(kind, lies, at, value % (1 << 8 * struct.calcsize(kind)))

    assert unpacked(tmp_path / "a.mar", bytes(lies), tmp_path) in (None, CONTENT)


NAMES = st.sampled_from(
    [
        "a",
        "A",
        "a/b",
        "a/",
        "../x",
        "/x",
        "x\\y",
        "C:x",
        "nul",
        "x.",
        "caf\u00e9",
        "cafe\u0301",
        "",
        "MAR-INF/MANIFEST.json",
        "MAR-INF/x",
        "b",
        "b/c",
        ".",
        "x\u202ey",
        "n" * 300,
    ]
)
ITEMS = st.builds(
    Item,
    name=NAMES | st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace").decode()),
    content=st.binary(max_size=60),
    method=st.sampled_from([0, 8, 8, 9, 12, 14, 99]),
    size=st.none() | st.integers(0, 100),
    packed_size=st.none() | st.none() | st.integers(0, 100),
    flags=st.none() | st.none() | st.integers(0, 0xFFFF),
    mode=st.sampled_from([S_IFREG | 0o644, S_IFLNK | 0o777, S_IFIFO, S_IFDIR | 0o755, 0, 0o4755]),
    dos=st.sampled_from([0, 0, 0x10, 0x08]),
    version=st.sampled_from([10, 20, 45, 46, 63, 0xFFFF]),
    extra=st.just(b"") | st.binary(max_size=12),
    local_extra=st.just(b"") | st.binary(max_size=12),
    at=st.none() | st.none() | st.integers(0, 200),
    hidden=st.sampled_from([False, False, False, True]),
    listed=st.sampled_from([True, True, True, False]),
)


@pytest.mark.slow
@QUIET
@given(items=st.lists(ITEMS, max_size=3), gap=st.sampled_from([b"", b"", b"x"]))
def test_whatever_is_put_together_is_refused_or_is_what_it_says(tmp_path, items, gap):
    content = forge_zip([*items, manifest_item(items)], gap=gap)
    found = unpacked(tmp_path / "a.mar", content, tmp_path)

    if found is not None:
        said = {item.name: item.content for item in items if item.listed and not item.hidden}
        assert found == said
