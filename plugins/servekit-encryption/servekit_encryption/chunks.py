# SPDX-License-Identifier: Apache-2.0
"""The format of an encrypted archive: a header, then chunks that AES-256-GCM protects one by one.

    magic, 16 bytes; id of the key, 8 bytes; salt, 16 bytes; size of a chunk, 4 bytes
    chunks: that many bytes, the last one perhaps fewer; a tag of 16 bytes after each

Each file has another key, which HKDF-SHA256 derives from the given one, the salt and the header.
The nonce of a chunk is its number and whether it is the last one, and the header is authenticated
with each chunk. So a chunk that was changed, moved, left out or added is refused, and a file that
was cut short, too.
Numbers are big-endian.
"""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from servekit.errors import StartupError

__all__ = ["Header", "decrypt", "encrypt", "new_header", "read_header"]

MAGIC: Final = b"servekit-enc-1\r\n"  # line endings that a transfer as text would change
HEADER: Final = struct.Struct(">16s8s16sI")
NONCE: Final = struct.Struct(">7xI?")
SALT_BYTES: Final = 16
KEY_BYTES: Final = 32
TAG_BYTES: Final = 16
CHUNK_BYTES: Final = 1 << 20
LARGEST_CHUNK: Final = 64 << 20  #: a header that asks for more memory is refused


@dataclass(frozen=True, slots=True)
class Header:
    """The beginning of an encrypted archive."""

    key_id: str
    salt: bytes
    chunk_bytes: int

    def to_bytes(self) -> bytes:
        """Return it as it is in the file."""
        return HEADER.pack(MAGIC, bytes.fromhex(self.key_id), self.salt, self.chunk_bytes)


def new_header(key_id: str, chunk_bytes: int = CHUNK_BYTES) -> Header:
    """Return a header for a file that nothing was encrypted with before."""
    return Header(key_id, os.urandom(SALT_BYTES), chunk_bytes)


def read_header(source: IO[bytes]) -> Header | None:
    """Return the header that *source* begins with; ``None`` if it is not an encrypted archive.

    :raises StartupError: the header is damaged.
    """
    content = source.read(HEADER.size)
    if not content.startswith(MAGIC):
        return None
    if len(content) < HEADER.size:
        raise StartupError("is cut short in its header")
    _, key_id, salt, chunk_bytes = HEADER.unpack(content)
    if not 0 < chunk_bytes <= LARGEST_CHUNK:
        raise StartupError(f"has chunks of {chunk_bytes} bytes, limit {LARGEST_CHUNK}")
    return Header(key_id.hex(), salt, chunk_bytes)


def encrypt(
    source: IO[bytes], header: Header, key: bytes, write: Callable[[bytes], object]
) -> None:
    """Hand *header* and the encrypted content of *source* to *write*."""
    cipher, above = _cipher(key, header), header.to_bytes()
    write(above)
    chunk, number, is_last = source.read(header.chunk_bytes), 0, False
    while not is_last:
        after = source.read(header.chunk_bytes)
        is_last = not after
        write(cipher.encrypt(NONCE.pack(number, is_last), chunk, above))
        chunk, number = after, number + 1


def decrypt(
    source: IO[bytes], header: Header, key: bytes, write: Callable[[bytes], object]
) -> None:
    """Hand the decrypted content of *source*, which stands behind its header, to *write*.

    Chunks are handed over one by one, so some may have been when an error is raised.

    :raises StartupError: the file was changed or cut short, or this is not its key.
    """
    cipher, above = _cipher(key, header), header.to_bytes()
    size = header.chunk_bytes + TAG_BYTES
    chunk, number, is_last = source.read(size), 0, False
    while not is_last:
        after = source.read(size)
        is_last = not after
        try:
            write(cipher.decrypt(NONCE.pack(number, is_last), chunk, above))
        except InvalidTag:
            place = f"chunk {number + 1}, at byte {HEADER.size + number * size}"
            raise StartupError(f"was changed or cut short, or is damaged: {place}") from None
        chunk, number = after, number + 1


def _cipher(key: bytes, header: Header) -> AESGCM:
    """Return the cipher of one file: the salt makes its key a new one."""
    if len(key) != KEY_BYTES:
        raise StartupError(f"the key {header.key_id} has {len(key)} bytes, not {KEY_BYTES}")
    derive = HKDF(SHA256(), KEY_BYTES, salt=header.salt, info=header.to_bytes())
    return AESGCM(derive.derive(key))
