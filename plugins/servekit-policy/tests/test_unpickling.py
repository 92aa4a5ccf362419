# SPDX-License-Identifier: Apache-2.0
"""What unpickling does, the scan has seen: compared with the real ``Unpickler``."""

import io
import lzma
import pickle
import tarfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servekit_policy.pickles.scanning import scan_file
from servekit_policy.pickles.walking import UNKNOWN, walk

SYSTEM = b"cposix\nsystem\n"
RUN = b"(X\x04\x00\x00\x00truetR."
PIECES = (
    *(b"\x80\x04", b"\x95" + bytes(8), b"(", b"0", b"1", b"2", b"N", b"\x88", b"]", b"}", b")"),
    *(b"\x8c\x05posix", b"\x8c\x06system", b"\x8c\x0bcollections", b"\x8c\x0bOrderedDict"),
    *(b"X\x05\0\0\0posix", b"Vposix\n", b"S'system'\n", b"U\x05posix", b"C\x01a"),
    *(b"\x94", b"q\0", b"q\1", b"r\2\0\0\0", b"p1\n", b"p00\n", b"p3\n"),
    *(b"h\0", b"h\1", b"j\2\0\0\0", b"g1\n", b"g00\n", b"g3\n"),
    *(b"I0x10\n", b"I01\n", b"I7\n", b"L7L\n", b"F1.5\n", b"F" + b"0" * (1 << 20) + b"1\n"),
    *(b"K\1", b"M\1\0", b"J\1\0\0\0", b"\x8a\x01\x05", b"\x8b\x01\0\0\0\x05"),
    *(b"\x93", b"\x93", b"\x93", SYSTEM, b"ccollections\nOrderedDict\n", b"R", b"t", b"\x85"),
    *(b"l", b"d", b"a", b"e", b"s", b"u", b"b", b"o", b"\x81", b"Pname\n", b"Q", b"\x97", b"."),
)


class Called(Exception):
    """Something that was imported has been called."""


class Trap:
    def __new__(cls, *_arguments, **_named):
        raise Called


class Watched(pickle.Unpickler):
    """Notes what is imported, and imports nothing."""

    def __init__(self, stream):
        super().__init__(stream)
        self.imported = []

    def find_class(self, module, name):
        self.imported.append(f"{module}.{name}")
        return Trap

    def persistent_load(self, _name):
        return None


def unpickled(content):
    """Return what is imported, and whether it is called or comes back."""
    watched = Watched(io.BytesIO(content))
    try:
        watched.load()
    except Called:
        return watched.imported, True
    except Exception:
        return watched.imported, False
    return watched.imported, True


def scanned(path, content):
    path.write_bytes(content)
    return list(scan_file(path, "f"))


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join))
def test_all_that_unpickling_imports_is_seen(tmp_path_factory, content):
    for text in (content, content + b"."):
        imported, is_used = unpickled(text)
        walked = walk(io.BytesIO(text))

        assert UNKNOWN in walked.imports or set(imported) <= set(walked.imports)
        if imported and is_used:
            found = scanned(tmp_path_factory.getbasetemp() / "f", text)
            assert found
            is_harmless = set(imported) == {"collections.OrderedDict"}
            assert is_harmless or not all(each.is_harmless for each in found)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x8c\x05posix\x8c\x06systemN0\x93" + RUN, id="a computed name"),
        pytest.param(b"I0x10\n0" + SYSTEM + RUN, id="a hexadecimal number"),
        pytest.param(b"V" + b"a" * (2 << 20) + b"\n0" + SYSTEM + RUN, id="a long line"),
        pytest.param(b"Np00\n0" + SYSTEM + RUN, id="a number with zeros"),
    ],
)
def test_what_calls_something_is_refused(tmp_path, content):
    assert unpickled(content)[1]
    assert any(not each.is_harmless for each in scanned(tmp_path / "f", content))


def test_a_number_that_was_given_twice_counts_once():
    content = (
        b"\x80\x04\x8c\x01aq\x010\x8c\x0bOrderedDictq\x010\x8c\x06systemq\x010"
        b"\x8c\x0bOrderedDict\x940"  # it gets the number 1
        b"\x8c\x0bcollectionsh\x01\x93" + RUN
    )
    assert unpickled(content)[0] == walk(io.BytesIO(content)).imports == ["collections.OrderedDict"]


@pytest.mark.parametrize("descr", ["'object'", "'O'", "[('a', 'object')]", "'|O8'", "nonsense"])
def test_arrays_of_objects_are_found_whatever_they_are_called(tmp_path, descr):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}\n".encode()
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    found = scanned(tmp_path / "f", content + SYSTEM + RUN)

    assert found[0].dangerous == ["posix.system"]


def test_numbers_with_names_are_no_pickle(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3, [("One", "<f8"), ("Other", "<i4")]))

    assert list(scan_file(tmp_path / "a.npy")) == []


@pytest.mark.parametrize("size", [4096, 1 << 16, 1 << 23])
def test_lzma_of_any_dictionary_is_unpacked(tmp_path, size):
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": size}]
    content = lzma.compress(SYSTEM + RUN, lzma.FORMAT_ALONE, filters=filters)

    assert scanned(tmp_path / "f", content)[0].dangerous == ["posix.system"]


def test_a_stream_of_zlib_that_follows_another_is_unpacked(tmp_path):
    content = zlib.compress(SYSTEM[:4]) + zlib.compress(SYSTEM[4:] + RUN)

    assert scanned(tmp_path / "f", content)[0].dangerous == ["posix.system"]


def test_an_old_tar_file_is_opened(tmp_path):
    file = io.BytesIO()
    info = tarfile.TarInfo("pickle")
    info.size = len(SYSTEM + RUN)
    head = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    head[257:265] = bytes(8)
    head[148:156] = b"%06o\0 " % (256 + sum(head[:148]) + sum(head[156:]))
    file.write(bytes(head) + (SYSTEM + RUN).ljust(512, b"\0") + bytes(1024))

    assert scanned(tmp_path / "f", file.getvalue())[0].dangerous == ["posix.system"]
