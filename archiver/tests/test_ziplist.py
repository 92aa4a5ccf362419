# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - tables of broken bytes read better unbroken
"""Every archive that two readers could take for two different ones is refused."""

import struct
import zipfile
from stat import S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG

import pytest
from servekit_archiver import ArchiveError, Limits, open_archive
from servekit_archiver.names import MANIFEST
from servekit_archiver.zip.format import END, END64, LOCATOR64

from archiver.tests.forging import Item, deflate, forge_zip, manifest_item

GIB = 1 << 30
DIFFER = "entry 'x': its local header and the central directory differ in "
MAX32 = (1 << 32) - 1
ADVICE = "a model is an archive, which servekit build makes, or a directory"
WIDE = struct.pack("<2H2Q", 1, 16, 1, 1)


def refusal(path):
    with pytest.raises(ArchiveError) as caught, open_archive(path) as archive:
        archive.verify()
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(str(path))
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (Item("../x"), "entry '../x': its name contains the part '..'"),
        (Item("a/../../x"), "entry 'a/../../x': its name contains the part '..'"),
        (Item("/etc/x"), "entry '/etc/x': its name is an absolute path"),
        (Item("C:\\x"), "entry 'C:\\\\x': its name contains a backslash"),
        (Item(""), "entry '': its name is empty"),
        (Item("/"), "entry '/': its name is an absolute path"),
        (Item("a//"), "entry 'a/': its name contains an empty part"),
        (Item("a\0b"), "entry 'a\\x00b': its name contains a control character"),
        (Item("n" * 300), f"entry '{'n' * 59}...: its name has a part of 300 bytes, limit 255"),
        (Item(b"\xff\xfe", flags=1 << 11), "entry 'ÿþ': its name is not UTF-8"),
        (Item(b"caf\xe9", flags=0), "entry 'café': its name is neither ASCII nor marked as UTF-8"),
        (Item("x", mode=S_IFLNK | 0o777), "entry 'x': is not a regular file (mode 0o120777)"),
        (Item("x", mode=S_IFIFO | 0o644), "entry 'x': is not a regular file (mode 0o10644)"),
        (Item("x", mode=S_IFCHR | 0o644), "entry 'x': is not a regular file (mode 0o20644)"),
        (Item("x", mode=S_IFDIR | 0o755), "entry 'x': is not a regular file (mode 0o40755)"),
        (Item("x/", mode=S_IFREG | 0o644), "entry 'x': is not a regular file (mode 0o100644)"),
        (Item("x", mode=S_IFREG | 0o4755), "entry 'x': has a special permission (mode 0o104755)"),
        (Item("x", dos=0x10), "entry 'x': is not a regular file (MS-DOS attributes 0x10)"),
        (Item("x", flags=1), "entry 'x': is encrypted"),
        (Item("x", flags=1 << 3), "entry 'x': has its size after its content (data descriptor)"),
        (Item("x", flags=1 << 6), "entry 'x': uses the flags 0x0040"),
        (Item("x", flags=1 << 13 | 2), "entry 'x': uses the flags 0x2000"),
        (
            Item("x", method=14),
            "entry 'x': uses compression method 14, not stored (0) or deflated",
        ),
        (Item("x", version=63), "entry 'x': needs version 6.3 of the zip format, limit 4.5"),
        (Item("x", version=99), "entry 'x': needs version 9.9 of the zip format, limit 4.5"),
        (Item("x", disk=1), "entry 'x': is on disk 1 of a split archive"),
        (Item("x", comment=b"hi"), "entry 'x': has a comment"),
        (Item("x", extra=b"\1"), "entry 'x': has an extra field cut short"),
        (Item("x", extra=b"\1\0\xff\0"), "entry 'x': has an extra field cut short"),
        (Item("x", local_extra=b"\1\0\xff\0"), "entry 'x': has an extra field cut short"),
        (Item("x", extra=b"\x75\x70\0\0"), "entry 'x': has a second name (Info-ZIP Unicode path)"),
        (Item("x", local_extra=b"\x01\x99\0\0"), "entry 'x': is encrypted"),
        (Item("x", extra=b"\x4e\x55\0\0"), "entry 'x': has a second name (Xceed Unicode name)"),
        (Item("x", local_extra=b"\x6e\x75\0\0"), "entry 'x': has the extra field 0x756e, which"),
        (Item("x", extra=b"\x55\x54\0\0" * 2), "entry 'x': has an extra field twice"),
        (Item("x", extra=WIDE * 2), "entry 'x': has an extra field twice"),
        (Item("x", extra=WIDE), "entry 'x': its ZIP64 field is 16 bytes long, not 0"),
        (Item("x", size=(1 << 32) - 1), "entry 'x': its ZIP64 field is 0 bytes long, not 8"),
        (
            Item("x", size=4 * GIB - 2, packed=b"hello world"),
            "entry 'x': is stored, but its 11 bytes",
        ),
        (Item("x", b"z" * 9, size=8, packed_size=8), f"entry '{MANIFEST}': begins 1 byte after"),
        (Item("x", bytes(10**7), method=8), "entry 'x': unpacks 97"),
        (Item("d/", b"x", mode=0, listed=False), "entry 'd': is a folder with content"),
        (Item("d/", mode=0, crc=7, listed=False), "entry 'd': is a folder with content"),
        (Item("nul.py"), "entry 'nul.py': its name has the part 'nul.py', a device on Windows"),
        (Item("x\u202ey"), "entry 'x\\u202ey': its name contains an invisible character, U+202E"),
        (Item("d/", mode=0), "entry 'd': is an empty folder, or is listed twice"),
        (
            Item("MAR-INF/x"),
            f"entry 'MAR-INF/x': is in the folder of {MANIFEST}, where no other file may be",
        ),
        (Item("mar-inf/x"), f"entry '{MANIFEST}': clashes with 'mar-inf'"),
        (
            Item("x", local={"name": b"y"}),
            DIFFER,
        ),
        (
            Item("x", local={"crc": 7}),
            DIFFER,
        ),
        (
            Item("x", local={"size": 1}),
            DIFFER,
        ),
        (
            Item("x", local={"method": 8}),
            DIFFER,
        ),
        (
            Item("x", local={"flags": 1}),
            DIFFER,
        ),
        (
            Item("x", local={"date": 34}),
            DIFFER,
        ),
        (Item("x", at=7), "entry 'x': begins 7 bytes after the start of the file"),
        (Item("x", at=1 << 31), f"entry '{MANIFEST}': begins 31 bytes after the start of the file"),
        (
            Item("x", hidden=True),
            f"entry '{MANIFEST}': begins 31 bytes after the start of the file",
        ),
        (Item("x", listed=False), "entry 'x': is not listed in the manifest"),
        (Item("x", b"a", crc=7), "entry 'x': its content does not match its CRC-32"),
        (
            Item("x", b"a", sha256="0" * 64),
            "entry 'x': its SHA-256 is ca978112ca1bbdcafac231b39a23",
        ),
        (Item("x", b"abc", method=8, packed=b"\xff\xff"), "entry 'x': does not unpack: Error -3"),
        (Item("x", b"abc", method=8, packed=b""), "entry 'x': its packed content is cut short"),
        (
            Item("x", b"abc", method=8, packed=deflate(b"ab")),
            "entry 'x': unpacks to 2 bytes instead",
        ),
        (
            Item("x", b"abc", method=8, packed=deflate(b"abcd")),
            "entry 'x': unpacks to more than its",
        ),
        (
            Item("x", b"a", method=8, packed=deflate(b"a") + b"!"),
            "entry 'x': has bytes after its pa",
        ),
    ],
)
def test_an_entry_that_breaks_a_rule_is_refused_by_name(forge, item, why):
    assert refusal(forge(item)).startswith(why)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("a", "a"), "entry 'a': clashes with 'a': some systems treat both names as"),
        (("Model.py", "model.py"), "entry 'model.py': clashes with 'Model.py'"),
        (("caf\u00e9", "cafe\u0301"), "entry 'cafe\u0301': clashes with 'caf\u00e9'"),
        (("a", "a/b"), "entry 'a/b': clashes with 'a'"),
        (("a/b", "a"), "entry 'a': clashes with 'a'"),
        (("a/b", "a/", "a/"), "entry 'a': is an empty folder, or is listed twice"),
        (("a/b", "A/"), "entry 'A': is an empty folder, or is listed twice"),
    ],
)
def test_names_that_clash_are_refused(forge, names, why):
    modes = [S_IFDIR | 0o755 if name.endswith("/") else S_IFREG | 0o644 for name in names]
    items = [
        Item(name, mode=mode, listed=not name.endswith("/"))
        for name, mode in zip(names, modes, strict=True)
    ]

    assert refusal(forge(*items)).startswith(why)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"prefix": b"#!/bin/sh\n"}, "entry 'x': begins 10 bytes after the start of the file"),
        ({"gap": b"hidden"}, "has 6 bytes outside every entry"),
        ({"disk": 1}, "is part of a split archive"),
        ({"start": 1}, "is part of a split archive"),
        ({"here": 1}, "is part of a split archive"),
        ({"here": 1, "count": 1}, "its central directory holds more than its entries"),
        ({"here": 3, "count": 3}, "record 2 of its central directory is malformed"),
        ({"here": 20_000, "count": 20_000}, "has 20000 entries, limit 10000"),
        ({"offset": 0}, "its end record does not say where its central directory is"),
        ({"size": 0}, "its end record does not say where its central directory is"),
        ({"offset": MAX32}, "its end record refers to a ZIP64 end record, which is not there"),
        ({"size": MAX32}, "its end record refers to a ZIP64 end record, which is not there"),
        ({"comment": 1}, "has 0 bytes after its end record, limit 0"),
    ],
)
def test_an_end_record_that_is_not_exact_is_refused(forge, how, why):
    assert refusal(forge(Item("x", b"y"), **how)) == why


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", f"is empty, and not an archive; {ADVICE}"),
        (b"PK", f"is not an archive; {ADVICE}"),
        (b"hello, world" * 9, f"is not an archive; {ADVICE}"),
        (b"PK\x03\x04" + b"x" * 99, "is cut short: it has no end record"),
        (END.pack(0, 0, 0, 0, 0, 0, 0), f"is not a model archive: it has no {MANIFEST}"),
    ],
)
def test_a_file_that_is_no_archive_is_refused(forge, content, why):
    assert refusal(forge.raw(content)) == why


@pytest.mark.parametrize("content", [b"", b"from servekit import Service\n" * 9])
@pytest.mark.parametrize("name", ["service.py", "model.toml", "model.onnx", "iris.joblib"])
def test_a_file_of_a_model_directory_names_the_directory(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)

    assert refusal(tmp_path / name).endswith(f"did you mean {tmp_path}?")


@pytest.mark.parametrize("junk", [b"x", b"0123456789", b"\0" * 65_000, b"PK\x05\x06" + b"\0" * 18])
def test_bytes_after_the_end_record_are_refused(forge, junk):
    path = forge(Item("x", b"y"))
    path.write_bytes(path.read_bytes() + junk)

    assert refusal(path)


@pytest.mark.parametrize(
    ("end64", "locator", "why"),
    [
        ({}, {}, "has a ZIP64 end record that it does not need"),
        ({1: 99}, {}, "has a ZIP64 end record that it does not need"),
        ({0: 45}, {}, "its ZIP64 end record is malformed"),
        ({2: 62}, {}, "needs version 6.2 of the zip format, limit 4.5"),
        ({3: 1}, {}, "is part of a split archive"),
        ({5: 3}, {}, "its two end records contradict each other"),
        ({6: 3}, {}, "its two end records contradict each other"),
        ({7: 1}, {}, "its two end records contradict each other"),
        ({8: 1}, {}, "its two end records contradict each other"),
        ({}, {0: 1}, "is part of a split archive"),
        ({}, {2: 2}, "is part of a split archive"),
        ({}, {2: 0}, "is part of a split archive"),
        ({}, {1: 0}, "its ZIP64 end record is not where it says"),
    ],
)
def test_the_two_end_records_must_agree_and_be_needed(forge, end64, locator, why):
    assert refusal(with_end64(forge(Item("x", b"y")), end64, locator)) == why


@pytest.mark.parametrize("refers", [{2: 0xFFFF}, {3: 0xFFFF}, {4: MAX32}, {5: MAX32}, None])
def test_a_zip64_end_record_of_small_numbers_is_refused(forge, refers):
    refers = dict.fromkeys((2, 3), 0xFFFF) | {4: MAX32, 5: MAX32} if refers is None else refers

    path = with_end64(forge(Item("x", b"y")), {}, {}, refers)

    assert refusal(path) == "has a ZIP64 end record that it does not need"


def with_end64(path, end64, locator, end=None):
    """Put ZIP64 end records into the archive *path*, and *end* over values of the plain one."""
    raw = path.read_bytes()
    said = END.unpack(raw[-END.size :])
    at = len(raw) - END.size
    values = dict(enumerate((44, 45, 45, 0, 0, *said[2:6]))) | end64
    where = dict(enumerate((0, at, 1))) | locator
    last = dict(enumerate(said)) | (end or {})
    records = END64.pack(*values.values()) + LOCATOR64.pack(*where.values())
    path.write_bytes(raw[:at] + records + END.pack(*last.values()))
    return path


def wide(*numbers):
    """Return a ZIP64 extra field of *numbers*."""
    return struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


NEEDLESS = "has a ZIP64 field that it does not need"


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (Item("x", b"abc", size=MAX32, extra=wide(3), local={"size": 3}), NEEDLESS),
        (Item("x", b"abc", packed_size=MAX32, extra=wide(3), local={"packed_size": 3}), NEEDLESS),
        (Item("x", b"abc", at=MAX32, extra=wide(0)), NEEDLESS),
        (Item("x", b"abc", extra=wide()), NEEDLESS),
        (Item("x", b"abc", local_extra=wide()), NEEDLESS),
        (Item("x", b"abc", local={"size": MAX32, "packed_size": MAX32}, local_extra=wide(3, 3)), NEEDLESS),
        (
            Item(
                "x", b"abc", size=MAX32, packed_size=MAX32, at=MAX32,
                extra=wide(3, 3, 0), local_extra=wide(3, 3),
            ),
            NEEDLESS,
        ),
        (Item("x", b"abc", size=MAX32, at=MAX32, extra=wide(1 << 33, 0), local={"size": 3}), NEEDLESS),
        (Item("x", b"abc", size=MAX32, at=MAX32, extra=wide(3, 1 << 33), local={"size": 3}), NEEDLESS),
        (Item("x", b"abc", size=MAX32, extra=wide(1 << 33), local={"size": 3}), "is stored, but its 3 bytes should become 8589934592"),
        (Item("x", b"abc", size=MAX32, extra=wide(3, 3), local={"size": 3}), "16 bytes long, not 8"),
        (Item("x", b"abc", size=MAX32, packed_size=MAX32, extra=wide(3, 3)), NEEDLESS),
        (Item("x", b"abc", local={"size": MAX32}, local_extra=wide(1 << 33)), "differ in size: 8589934592, 3"),
        (Item("x", b"abc", local_extra=wide(3, 3)), "16 bytes long, not 0"),
        (Item("x", b"abc", at=MAX32, extra=wide(1 << 62)), "begins "),
        (Item("x", b"abc", size=MAX32, extra=wide((1 << 64) - 1), local={"size": 3}), "is stored, but"),
        (Item("x", b"abc", disk=0xFFFF, extra=b"\1\0\4\0" + bytes(4)), "4 bytes long, not 0"),
    ],
)  # fmt: skip
def test_a_zip64_field_that_no_number_needs_or_that_lies_is_refused(forge, item, why):
    assert why in refusal(forge(item))


def test_fifty_headers_on_one_entry_are_refused_unread(forge):
    bomb = Item("0", b"x" * 1000)
    path = forge(
        bomb, *[Item(str(n), b"x" * 1000, at=0, packed=b"", packed_size=1000) for n in range(1, 50)]
    )

    assert refusal(path) == "entry '1': overlaps entry '0'"


def test_an_entry_that_lies_in_the_content_of_another_is_refused(forge):
    inner = forge_zip([Item("x", b"payload")])
    items = [Item("outer", inner), Item("x", b"payload", at=35, packed=b"", packed_size=7)]

    assert "overlaps entry 'outer'" in refusal(forge(*items))


def test_limits_are_the_callers(forge):
    path = forge(Item("x", b"12345"))
    for limits, why in (
        (Limits(entries=1), "has 2 entries, limit 1"),
        (Limits(file_bytes=4), "limit 4"),
        (Limits(total_bytes=6), "bytes, limit 6"),
    ):
        with pytest.raises(ArchiveError, match=why):
            open_archive(path, limits=limits)


def test_folders_of_listed_files_may_have_entries(forge):
    folder = Item("a/", mode=S_IFDIR | 0o755, dos=0x10, listed=False)

    with open_archive(forge(folder, Item("a/b", b"c"))) as archive:
        assert list(archive.entries) == ["a/b"]


def test_how_hard_a_writer_tried_means_nothing(forge):
    path = forge(Item("x", b"abc", flags=2), Item("y", b"abc", method=8, flags=6))

    with open_archive(path) as archive:
        archive.verify()


def test_an_archive_made_by_the_standard_library_is_read(tmp_path):
    files = [Item("a.txt", b"hello" * 99), Item("é/b.bin", bytes(99))]
    with zipfile.ZipFile(tmp_path / "a.mar", "w", zipfile.ZIP_DEFLATED) as file:
        for item in (*files, manifest_item(files)):
            file.writestr(item.name, item.content)

    with open_archive(tmp_path / "a.mar") as archive:
        archive.verify()
