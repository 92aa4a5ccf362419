# SPDX-License-Identifier: Apache-2.0
"""A Sigstore bundle, signed by a plain key, in the form of OpenSSF model-signing."""

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from servekit_archiver import ArchiveError

from servekit_signing.keys import algorithm_for, fingerprint

__all__ = ["open_bundle", "seal"]

MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"


def seal(statement: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a bundle with *statement*, signed with *key*."""
    public = key.public_key()
    signature = key.sign(_signed_bytes(statement), algorithm_for(public))
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {
            "publicKey": {"hint": fingerprint(public)},
            "tlogEntries": [],
        },
        "dsseEnvelope": {
            "payload": base64.b64encode(statement).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }
    return json.dumps(bundle).encode()


def open_bundle(
    content: bytes, keys: Sequence[ec.EllipticCurvePublicKey]
) -> tuple[bytes, ec.EllipticCurvePublicKey]:
    """Return the statement of a bundle, and the one of *keys* that has signed it.

    :raises ArchiveError: it is not a bundle of a key, or none of *keys* has signed it.
    """
    try:
        hint, statement, signature = _parts(json.loads(content))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArchiveError(f"its signature is not a bundle of a key: {error}") from error
    return statement, _signer(hint, _signed_bytes(statement), signature, keys)


def _parts(bundle: Any) -> tuple[str, bytes, bytes]:
    """Return the name of the key, the statement and the signature."""
    envelope = bundle["dsseEnvelope"]
    if (bundle["mediaType"], envelope["payloadType"]) != (MEDIA_TYPE, PAYLOAD_TYPE):
        raise ValueError("it is of another type")
    (signed,) = envelope["signatures"]
    return (
        str(bundle["verificationMaterial"]["publicKey"]["hint"]),
        base64.b64decode(envelope["payload"], validate=True),
        base64.b64decode(signed["sig"], validate=True),
    )


def _signer(
    hint: str, content: bytes, signature: bytes, keys: Sequence[ec.EllipticCurvePublicKey]
) -> ec.EllipticCurvePublicKey:
    """Return the one of *keys* that *hint* names and that has signed *content*."""
    for key in keys:
        if fingerprint(key) == hint:
            try:
                key.verify(signature, content, algorithm_for(key))
            except InvalidSignature:
                raise ArchiveError("its signature is not valid: it was changed") from None
            return key
    shown = hint[:16] if hint.isalnum() else "unknown"
    raise ArchiveError(f"is signed by the key {shown}, which is not trusted")


def _signed_bytes(payload: bytes) -> bytes:
    """Return what is signed: the pre-authentication encoding of DSSE."""
    return b"DSSEv1 %d %b %d %b" % (
        len(PAYLOAD_TYPE),
        PAYLOAD_TYPE.encode(),
        len(payload),
        payload,
    )
