# SPDX-License-Identifier: Apache-2.0
"""Every change of an encrypted file is noticed."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servekit_encryption.chunks import HEADER, TAG_BYTES, decrypt, encrypt, new_header, read_header

from servekit.errors import StartupError
from servekit.settings.archive_keys import key_id

KEY = bytes(range(32))
CHUNK = 16
SIZE = CHUNK + TAG_BYTES


def encrypted(content, key=KEY, chunk_bytes=CHUNK):
    out = io.BytesIO()
    encrypt(io.BytesIO(content), new_header(key_id(key), chunk_bytes), key, out.write)
    return out.getvalue()


def decrypted(content, key=KEY):
    source, out = io.BytesIO(content), io.BytesIO()
    decrypt(source, read_header(source), key, out.write)
    return out.getvalue()


@given(st.binary(max_size=100), st.integers(1, 40))
def test_content_comes_back(content, chunk_bytes):
    assert decrypted(encrypted(content, chunk_bytes=chunk_bytes)) == content


def test_large_content_comes_back():
    content = bytes(range(256)) * 20_000

    assert decrypted(encrypted(content, chunk_bytes=1 << 20)) == content


@given(st.binary(min_size=1, max_size=60), st.data())
def test_any_changed_byte_is_noticed(content, data):
    changed = bytearray(encrypted(content))
    place = data.draw(st.integers(0, len(changed) - 1))
    changed[place] ^= data.draw(st.integers(1, 255))
    source = io.BytesIO(bytes(changed))
    try:
        header = read_header(source)
    except StartupError:
        return
    if header is not None:
        with pytest.raises(StartupError, match="was changed or cut short"):
            decrypt(source, header, KEY, lambda _chunk: None)


@given(st.binary(min_size=1, max_size=60), st.data())
def test_any_shorter_file_is_noticed(content, data):
    whole = encrypted(content)
    size = data.draw(st.integers(HEADER.size, len(whole) - 1))

    with pytest.raises(StartupError, match="was changed or cut short"):
        decrypted(whole[:size])


def chunks_of(content):
    body = content[HEADER.size :]
    return [body[at : at + SIZE] for at in range(0, len(body), SIZE)]


@pytest.mark.parametrize(
    "order",
    [
        pytest.param([1, 0, 2], id="swapped"),
        pytest.param([0, 0, 1, 2], id="repeated"),
        pytest.param([0, 2], id="left out"),
        pytest.param([0, 1], id="cut at a chunk"),
        pytest.param([0, 1, 2, 2], id="added"),
        pytest.param([], id="none"),
    ],
)
def test_chunks_in_another_order_are_refused(order):
    whole = encrypted(bytes(3 * CHUNK))
    chunks = chunks_of(whole)

    assert len(chunks) == 3
    with pytest.raises(StartupError, match="was changed or cut short"):
        decrypted(whole[: HEADER.size] + b"".join(chunks[each] for each in order))


def test_chunks_of_another_file_are_refused():
    one, other = encrypted(bytes(3 * CHUNK)), encrypted(bytes(3 * CHUNK))
    mixed = one[: HEADER.size] + b"".join(chunks_of(one)[:2] + chunks_of(other)[2:])

    with pytest.raises(StartupError, match=r"chunk 3, at byte 108"):
        decrypted(mixed)


def test_the_same_content_is_encrypted_differently_each_time():
    assert not {*chunks_of(encrypted(b"a" * 64))} & {*chunks_of(encrypted(b"a" * 64))}


def test_another_key_is_refused():
    with pytest.raises(StartupError, match="was changed or cut short"):
        decrypted(encrypted(b"content"), key=bytes(32))


def test_a_key_of_another_length_is_refused():
    with pytest.raises(StartupError, match="has 16 bytes, not 32"):
        decrypted(encrypted(b"content"), key=bytes(16))


@pytest.mark.parametrize(
    "content", [b"", b"PK\3\4", b"servekit-enc-2\r\n" + bytes(60), b"servekit-enc-1\n\n"]
)
def test_other_files_are_left_to_others(content):
    assert read_header(io.BytesIO(content)) is None


def test_a_header_that_asks_for_much_memory_is_refused():
    content = bytearray(encrypted(b"x"))
    content[HEADER.size - 4 : HEADER.size] = b"\xff\xff\xff\xff"

    with pytest.raises(StartupError, match="has chunks of 4294967295 bytes, limit"):
        read_header(io.BytesIO(bytes(content)))


def test_a_header_that_is_cut_short_is_refused():
    with pytest.raises(StartupError, match="is cut short in its header"):
        read_header(io.BytesIO(encrypted(b"x")[:20]))
