# SPDX-License-Identifier: Apache-2.0
"""The signed statement, in the form of in-toto: the digest of every file and of the manifest."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from servekit_archiver import Archive, ArchiveError
from servekit_archiver.names import MANIFEST, SIGNATURE

__all__ = ["digests_of", "make_statement", "read_statement"]

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://model_signing/signature/v1.0"


def digests_of(archive: Archive) -> dict[str, str]:
    """Return the SHA-256 of every file of *archive*, and of its manifest, by name."""
    found = {name: info.sha256 for name, info in archive.manifest.files.items()}
    return found | {MANIFEST: archive.digest}


def make_statement(name: str, digests: Mapping[str, str]) -> bytes:
    """Return the statement that the model *name* consists of files with these digests."""
    ordered = sorted(digests.items())
    predicate = {
        "serialization": {
            "method": "files",
            "hash_type": "sha256",
            "allow_symlinks": False,
            "ignore_paths": [SIGNATURE],
        },
        "resources": [
            {"name": file, "algorithm": "sha256", "digest": digest} for file, digest in ordered
        ],
    }
    subject = {"name": name, "digest": {"sha256": _root([digest for _, digest in ordered])}}
    statement = {
        "_type": STATEMENT,
        "subject": [subject],
        "predicateType": PREDICATE,
        "predicate": predicate,
    }
    return json.dumps(statement, sort_keys=True).encode()


def read_statement(content: bytes) -> dict[str, str]:
    """Return the digests of a statement, by name.

    :raises ArchiveError: it is not such a statement, or contradicts itself.
    """
    try:
        return _digests(json.loads(content))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArchiveError(f"its signature has no valid statement: {error}") from error


def _digests(statement: Any) -> dict[str, str]:
    if (statement["_type"], statement["predicateType"]) != (STATEMENT, PREDICATE):
        raise ValueError("it is another kind of statement")
    (subject,) = statement["subject"]
    resources = statement["predicate"]["resources"]
    if any(each["algorithm"] != "sha256" for each in resources):
        raise ValueError("its digests are not SHA-256")
    if subject["digest"]["sha256"] != _root([each["digest"] for each in resources]):
        raise ValueError("its digests are not those of its subject")
    found = {str(each["name"]): str(each["digest"]) for each in resources}
    if len(found) < len(resources):
        raise ValueError("it names a file twice")
    return found


def _root(digests: list[str]) -> str:
    return hashlib.sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()
