# SPDX-License-Identifier: Apache-2.0
"""Keys on the curves that OpenSSF model-signing knows, from PEM files."""

import getpass
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from servekit_archiver import ArchiveError

__all__ = ["algorithm_for", "fingerprint", "private_key", "public_keys"]

#: curve to the hash that its signatures are made with
HASHES: Final = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}
SUFFIXES: Final = (".pem", ".pub")


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return the private key in the file at *path*; asks for its password if it has one.

    :raises ArchiveError: it is not such a key.
    """
    content = _read(path)
    try:
        key = serialization.load_pem_private_key(content, None)
    except TypeError:  # it has a password
        key = _unlocked(path, content)
    except ValueError as error:
        raise ArchiveError(f"{path}: is not a private key (PEM)") from error
    except UnsupportedAlgorithm as error:
        raise _of_another_kind(path) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name not in HASHES:
        raise _of_another_kind(path)
    return key


def _unlocked(path: Path, content: bytes) -> serialization.SSHPrivateKeyTypes:
    try:
        password = getpass.getpass(f"password of {path}: ").encode()
    except EOFError as error:
        raise ArchiveError(f"{path}: needs a password, and none was entered") from error
    try:
        return serialization.load_pem_private_key(content, password)  # type: ignore[return-value]
    except (ValueError, TypeError) as error:
        raise ArchiveError(f"{path}: the password is wrong") from error


def public_keys(paths: Iterable[str | Path]) -> list[ec.EllipticCurvePublicKey]:
    """Return the keys in *paths*: files, or directories whose ``.pem`` and ``.pub`` files count.

    :raises ArchiveError: one is not such a key, or there is none at all.
    """
    found = [_public_key(file) for path in paths for file in _files(Path(path))]
    if not found:
        raise ArchiveError("there is no trusted key (--trusted-keys)")
    return found


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    yield from sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)


def _public_key(path: Path) -> ec.EllipticCurvePublicKey:
    try:
        key = serialization.load_pem_public_key(_read(path))
    except ValueError as error:
        raise ArchiveError(f"{path}: is not a public key (PEM)") from error
    except UnsupportedAlgorithm as error:
        raise _of_another_kind(path) from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in HASHES:
        raise _of_another_kind(path)
    return key


def _of_another_kind(path: Path) -> ArchiveError:
    return ArchiveError(f"{path}: is not a key on one of the curves {', '.join(HASHES)}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror}") from error


def algorithm_for(key: ec.EllipticCurvePublicKey) -> ec.ECDSA:
    """Return the algorithm of signatures by *key*."""
    return ec.ECDSA(HASHES[key.curve.name])


def fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """Return what bundles call *key*: the SHA-256 of its PEM."""
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(*form)).hexdigest()
