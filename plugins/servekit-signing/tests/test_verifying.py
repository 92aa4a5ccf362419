# SPDX-License-Identifier: Apache-2.0
"""What a signature is worth: wrong keys, changed archives, and bundles that are none."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servekit_archiver import ArchiveError, build_archive, open_archive, write_signed
from servekit_signing.bundle import open_bundle, seal
from servekit_signing.hooks import accept_archive
from servekit_signing.keys import private_key, public_keys
from servekit_signing.statement import make_statement, read_statement

from servekit.extension import ArchiveInfo, Kept, Policy, Refused


@pytest.fixture
def info(archive):
    with open_archive(archive) as opened:
        digest = opened.digest
    return ArchiveInfo(
        name="digits", version="1.0", source="a.mar", path=archive, directory=Path("/cache"),
        manifest={}, digest=digest,
    )  # fmt: skip


def judge(info, *keys):
    return accept_archive(info, Policy(rules=("signed",), trusted_keys=tuple(map(str, keys))))


def bundle_of(path):
    with open_archive(path) as archive:
        return json.loads(archive.read_signature())


def test_nothing_is_judged_unless_the_policy_says_so(info):
    assert accept_archive(info, Policy(rules=("no-pickle",))) is None


def test_an_archive_of_a_trusted_key_is_accepted(info, signed, key, make_key):
    assert judge(info, make_key("other")[1], key[1]) == Kept(("signed",))


def test_an_unsigned_archive_is_refused(info, key):
    assert judge(info, key[1]) == Refused("is not signed", "signed")


def test_another_key_is_refused_and_named(info, signed, make_key):
    hint = bundle_of(signed)["verificationMaterial"]["publicKey"]["hint"]
    reason = f"is signed by the key {hint[:16]}, which is not trusted"

    assert judge(info, make_key("other")[1]) == Refused(reason, "signed")


def test_without_a_key_nothing_is_trusted(info, signed, tmp_path):
    (tmp_path / "keys").mkdir()

    assert "there is no trusted key" in judge(info).reason
    assert "there is no trusted key" in judge(info, tmp_path / "keys").reason
    assert "No such file" in judge(info, tmp_path / "nothing.pem").reason


def test_a_directory_cannot_be_signed(info, key):
    from msgspec.structs import replace

    assert "model directory" in judge(replace(info, digest=""), key[1]).reason


def test_an_archive_that_was_replaced_meanwhile_is_refused(info, signed, model, key):
    (model / "service.py").write_text("class Digits: changed = 1\n")
    build_archive(model, signed, force=True)

    assert judge(info, key[1]).reason == "was replaced while it was being loaded"


@pytest.mark.parametrize(
    ("change", "file", "reason"),
    [
        pytest.param(lambda m: (m / "weights.bin").write_bytes(b"x"), "weights.bin", "changed"),
        pytest.param(lambda m: (m / "evil.py").write_text("x"), "evil.py", "added"),
        pytest.param(lambda m: (m / "data/labels.txt").unlink(), "data/labels.txt", "removed"),
        pytest.param(
            lambda m: (m / "model.toml").write_text('name = "d"\nservice = "service:Digits"\n'),
            "MAR-INF/MANIFEST.json", "changed", id="manifest",
        ),
    ],
)  # fmt: skip
def test_the_signature_of_another_content_is_refused(
    info, signed, model, key, tmp_path, change, file, reason
):
    with open_archive(signed) as archive:
        bundle = archive.read_signature()
    change(model)
    changed = build_archive(model, tmp_path / "changed.mar")
    write_signed(changed.path, signed, bundle, force=True)
    from msgspec.structs import replace

    found = judge(replace(info, digest=changed.digest), key[1])
    # the manifest differs, too: the first of both names in their order
    assert (found.file in (file, "MAR-INF/MANIFEST.json"), found.rule) == (True, "signed")


def forged(bundle, **changes):
    envelope = dict(bundle["dsseEnvelope"])
    envelope |= {name: value for name, value in changes.items() if name in envelope}
    return bundle | {"dsseEnvelope": envelope}


def test_a_statement_that_was_changed_is_refused(signed, info, key):
    bundle = bundle_of(signed)
    text = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b"digits", b"digitz")
    forgery = forged(bundle, payload=base64.b64encode(text).decode())
    write_signed(signed, signed, json.dumps(forgery).encode(), force=True)

    assert judge(info, key[1]).reason == "its signature is not valid: it was changed"


def test_a_signature_of_another_type_of_payload_is_refused(signed, info, key):
    forgery = forged(bundle_of(signed), payloadType="text/plain")
    write_signed(signed, signed, json.dumps(forgery).encode(), force=True)

    assert "is not a bundle of a key: it is of another type" in judge(info, key[1]).reason


@given(st.one_of(st.binary(max_size=300), st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["mediaType", "dsseEnvelope", "payload", "signatures", "sig"]), inner
    ),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_what_is_no_bundle_is_refused(content):
    with pytest.raises(ArchiveError, match="its signature is not a bundle of a key"):
        open_bundle(content, [])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param({"_type": "x"}, "another kind of statement", id="type"),
        pytest.param({"subject": []}, "not enough values", id="no subject"),
        pytest.param({"predicate": {"resources": []}}, "not those of its subject", id="root"),
    ],
)
def test_a_statement_that_contradicts_itself_is_refused(change, complaint):
    statement = json.loads(make_statement("digits", {"a": "00" * 32}))

    with pytest.raises(ArchiveError, match=complaint):
        read_statement(json.dumps(statement | change).encode())


@given(st.dictionaries(st.text(min_size=1), st.binary(min_size=32, max_size=32).map(bytes.hex)))
def test_a_statement_reads_back(digests):
    assert read_statement(make_statement("digits", digests)) == digests


def test_a_bundle_reads_back_with_its_key_alone(key, make_key):
    other = public_keys([make_key("other")[1]])
    own = public_keys([key[1]])
    bundle = seal(b"statement", private_key(key[0]))

    assert open_bundle(bundle, [*other, *own]) == (b"statement", own[0])
    with pytest.raises(ArchiveError, match="is not trusted"):
        open_bundle(bundle, other)


# ---------------------------------------------------------------- the tool of OpenSSF

#: a Python that has model-signing; it is too heavy to be installed for the tests
OTHER_PYTHON = os.environ.get("MODEL_SIGNING_PYTHON", sys.executable)


@pytest.fixture
def model_signing():
    command = [OTHER_PYTHON, "-m", "model_signing"]
    if subprocess.run([*command, "--help"], capture_output=True, check=False).returncode:
        pytest.skip("model-signing is not installed (MODEL_SIGNING_PYTHON)")
    return lambda *arguments: subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_model_signing_verifies_an_unpacked_archive(model_signing, run, signed, key, tmp_path):
    directory = tmp_path / "x"
    run("extract", signed, directory, "--with-manifest")
    signature = directory / "MAR-INF/model.sig"
    verify = ("verify", "key", directory, "--public_key", key[1], "--signature", signature)

    done = model_signing(*verify, "--ignore-paths", signature)
    assert (done.returncode, done.stdout) == (0, "Verification succeeded\n")

    (directory / "service.py").write_text("class Digits: changed = 1\n")
    assert model_signing(*verify, "--ignore-paths", signature).returncode != 0


def test_a_signature_by_model_signing_is_verified(model_signing, run, archive, info, key, tmp_path):
    directory, signature = tmp_path / "x", tmp_path / "model.sig"
    run("extract", archive, directory, "--with-manifest")
    done = model_signing(
        "sign", "key", directory, "--private_key", key[0], "--signature", signature
    )
    assert done.returncode == 0, done.stderr
    write_signed(archive, archive, signature.read_bytes(), force=True)

    assert judge(info, key[1]) == Kept(("signed",))
