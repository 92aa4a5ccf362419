# SPDX-License-Identifier: Apache-2.0
"""Pickles are found wherever they are, and nothing else is taken for one."""

import bz2
import errno
import gzip
import io
import lzma
import os
import pickle
import tarfile
import zipfile
import zlib
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servekit_policy.pickles.scanning import Finding, scan_directory, scan_file
from servekit_policy.pickles.walking import UNKNOWN, walk

PROTOCOLS = range(6)


class Planted:
    def __reduce__(self):
        return os.system, ("true",)


def planted(protocol=4):
    return pickle.dumps({"weights": [1.5, "a", Planted()]}, protocol)


def zipped(content, name="archive/data.pkl"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("archive/version", "3")
        packed.writestr(name, content)
    return file.getvalue()


def tarred(content, kind=tarfile.REGTYPE):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as packed:
        info = tarfile.TarInfo("pickle")
        info.size, info.type = len(content), kind
        packed.addfile(info, io.BytesIO(content))
    return file.getvalue()


def array(content):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "|O", "fortran_order": False, "shape": (1,)}
    )
    return file.getvalue() + content


def legacy(content):
    """As torch wrote files before 1.6: several pickles, then numbers."""
    numbers = bytes(range(256))
    return pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + content + numbers


PACKINGS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda content: lzma.compress(content, format=lzma.FORMAT_ALONE),
    "zip": zipped,
    "zip after other bytes": lambda content: b"#!/bin/sh\n" + zipped(content),
    "zip with a folder that has content": lambda content: zipped(content, "archive/data/"),
    "zip of an array": lambda content: zipped(array(content), "a.npy"),
    "tar": tarred,
    "tar of an unknown type": lambda content: tarred(content, b"Z"),
    "tar of an old type": lambda content: tarred(content, tarfile.AREGTYPE),
    "tar of a contiguous file": lambda content: tarred(content, tarfile.CONTTYPE),
    "array": array,
    "legacy": legacy,
}


def findings(path, content):
    path.write_bytes(content)
    return list(scan_file(path, "f"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("packing", PACKINGS)
def test_planted_pickle_is_found(tmp_path, packing, protocol):
    found = findings(tmp_path / "labels.txt", PACKINGS[packing](planted(protocol)))

    assert "posix.system" in found[-1].dangerous


@given(st.lists(st.sampled_from(sorted(PACKINGS)), max_size=3), st.sampled_from(PROTOCOLS))
def test_planted_pickle_is_found_or_refused_in_any_packing(tmp_path_factory, packings, protocol):
    content = planted(protocol)
    for packing in packings:
        content = PACKINGS[packing](content)
    found = findings(tmp_path_factory.mktemp("f") / "weights.bin", content)
    # nobody unpacks a file that only follows something else
    is_hidden = "zip after other bytes" in packings[:-1] or (
        {"array", "legacy", "zip of an array"} & {*packings[1:]}
    )

    assert is_hidden or any(not finding.is_harmless for finding in found)


@given(st.binary(max_size=200))
def test_any_bytes_can_be_walked(content):
    walk(io.BytesIO(content))
    walk(io.BytesIO(b"\x80\x04" + content))


@given(st.binary(max_size=300), st.sampled_from(sorted(PACKINGS)))
def test_broken_packings_end_in_findings(tmp_path_factory, noise, packing):
    content = PACKINGS[packing](planted())
    cut = content[: len(content) * 2 // 3] + noise

    assert all(isinstance(each, Finding) for each in findings(
        tmp_path_factory.mktemp("f") / "f", cut
    ))  # fmt: skip


@given(st.text(max_size=300))
def test_text_is_no_pickle(tmp_path_factory, text):
    assert findings(tmp_path_factory.mktemp("f") / "f", b"# " + text.encode()) == []


@pytest.mark.parametrize(
    "text",
    [
        "cat\ndog\nRabbit\n",
        "in\nthe\nRuhr\n",
        "import os\nimport sys\n",
        "class Sum:\n    pass\n",
        '{"a": 1}',
        "",
        "I am text.\n",
    ],
)
def test_other_files_are_no_pickles(tmp_path, text):
    assert findings(tmp_path / "f", text.encode()) == []


def test_numbers_are_no_pickle(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(1000.0))
    np.savez(tmp_path / "b.npz", a=np.arange(1000.0))

    assert list(scan_directory(tmp_path)) == []


def test_what_is_harmless_is_called_so(tmp_path):
    (found,) = findings(
        tmp_path / "f", pickle.dumps(OrderedDict(a=np.arange(3.0), b=np.float32(1)))
    )

    assert found.is_harmless
    assert str(found) == "is a pickle"


def test_a_computed_name_is_not_harmless():
    code = pickle.PROTO + b"\x04" + b"\x8c\x02os" + b"\x8c\x01a" + b"0" + b"N" + pickle.STACK_GLOBAL
    assert walk(io.BytesIO(code + b".")).imports == [UNKNOWN]


def test_names_come_from_the_memo_too():
    class Twice:
        def __reduce__(self):
            return os.system, ("system",)

    text = pickle.dumps([os.system, "posix", "system", Twice()], 4)
    assert set(walk(io.BytesIO(text)).imports) == {"posix.system"}


def test_a_pickle_that_breaks_off_counts(tmp_path):
    (found,) = findings(tmp_path / "f", planted()[:-3] + b"\xff\xff")

    assert found.dangerous == ["posix.system"]
    assert "cannot be read to its end" in found.problem


def test_a_long_value_is_not_held_in_memory(tmp_path):
    (found,) = findings(tmp_path / "f", pickle.dumps([b"x" * (5 << 20), Planted()], 4))

    assert found.dangerous == ["posix.system"]


def test_a_packing_that_cannot_be_looked_into_is_named(tmp_path):
    (found,) = findings(tmp_path / "f", b"\x04\x22\x4d\x18" + b"0" * 50)

    assert str(found) == "is packed with lz4, which cannot be looked into"


def test_archives_in_archives_end_somewhere(tmp_path):
    content = planted()
    for _ in range(8):
        content = zipped(content)
    (found,) = findings(tmp_path / "f", content)

    assert str(found) == "is nested too deeply to be looked at"


def test_an_encrypted_member_is_named(tmp_path):
    content = bytearray(zipped(planted()))
    at = content.rindex(b"PK\x01\x02")
    content[at + 8] |= 1
    found = findings(tmp_path / "f", bytes(content))

    assert "cannot be unpacked" in str(found[-1])
    assert found[-1].place == "f!archive/data.pkl"


def test_directory_is_read_in_the_order_of_names(tmp_path):
    for name in ("b/2", "b/1", "a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(planted())

    assert [each.place for each in scan_directory(tmp_path)] == ["a", "b/1", "b/2"]


def test_folders_in_archives_are_no_pickles(tmp_path):
    (tmp_path / "folder").mkdir()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.write(tmp_path / "folder", "folder")
    with tarfile.open(tmp_path / "a.tar", "w") as packed:
        packed.add(tmp_path / "folder", "folder")

    assert list(scan_directory(tmp_path)) == []


def test_a_link_to_a_folder_is_a_finding(tmp_path):
    model, outside = tmp_path / "model", tmp_path / "outside"
    for directory in (model / "data", outside):
        directory.mkdir(parents=True)
    (outside / "weights").write_bytes(planted())
    (model / "data/link").symlink_to(outside)
    (model / "link").symlink_to(outside)
    (tmp_path / "served").symlink_to(model)
    found = list(scan_directory(tmp_path / "served"))

    assert [each.place for each in found] == ["link", "data/link"]
    assert {str(each) for each in found} == {"is a link to a folder, which is not looked into"}
    assert not found[0].is_harmless


def test_a_link_to_a_file_is_followed(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "weights").write_bytes(planted())
    (model / "link").symlink_to(tmp_path / "weights")
    (found,) = scan_directory(model)

    assert (found.place, found.dangerous) == ("link", ["posix.system"])


def test_a_folder_that_cannot_be_listed_is_a_finding(tmp_path, monkeypatch):
    (tmp_path / "a/locked").mkdir(parents=True)
    listed = os.scandir

    def scandir(path):
        if os.fspath(path).endswith("locked"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (found,) = scan_directory(tmp_path)

    assert (found.place, str(found)) == ("a/locked", "cannot be read: Permission denied")
