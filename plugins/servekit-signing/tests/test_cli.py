# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive sign``, and ``verify --key``."""

import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from servekit_archiver import build_archive, open_archive, unpack

from servekit.cli import main as servekit


def test_a_signed_archive_is_verified_and_keeps_its_digest(run, archive, key):
    with open_archive(archive) as unsigned:
        digest = unsigned.digest
    status, out, _ = run("sign", archive, "--key", key[0])
    signer = out.split()[-3]

    assert (status, out.splitlines()[1]) == (0, f"digest {digest}")
    status, out, _ = run("verify", archive, "--key", key[1])
    assert (status, out.splitlines()[1:]) == (
        0,
        [f"digest {digest}", f"signed by the key {signer}"],
    )


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_each_curve_of_model_signing_is_known(run, archive, make_key, curve):
    private, public = make_key("k", curve)
    run("sign", archive, "--key", private)

    assert run("verify", archive, "--key", public)[0] == 0


def test_servekit_has_the_commands_too(signed, key, capsys):
    assert servekit(["sign", str(signed), "--key", str(key[0])]) == 0
    assert servekit(["verify", str(signed), "--key", str(key[1])]) == 0
    assert servekit(["sign", str(signed), "--key", "nothing.pem"]) == 1
    assert capsys.readouterr().err == "servekit: nothing.pem: No such file or directory\n"


def test_the_help_names_the_plugin(run, capsys):
    with pytest.raises(SystemExit):
        run("--help")

    assert "sign an archive with a private key (plugin signing)" in capsys.readouterr().out


def test_signing_again_replaces_the_signature(run, signed, make_key):
    size = signed.stat().st_size
    private, public = make_key("other")
    run("sign", signed, "--key", private)

    assert abs(signed.stat().st_size - size) < 32
    assert run("verify", signed, "--key", public)[0] == 0


def test_an_output_is_not_replaced_unless_asked(run, archive, key, tmp_path):
    output = tmp_path / "out.mar"
    before = archive.read_bytes()

    assert run("sign", archive, "--key", key[0], "-o", output)[0] == 0
    assert "already exists" in run("sign", archive, "--key", key[0], "-o", output)[2]
    assert run("sign", archive, "--key", key[0], "-o", output, "--force")[0] == 0
    assert archive.read_bytes() == before


def test_a_directory_of_keys_is_taken(run, signed, key, make_key, tmp_path):
    make_key("other")

    assert run("verify", signed, "--key", tmp_path)[0] == 0


def test_content_is_unpacked_to_the_same_place(run, archive, key, tmp_path):
    before = unpack(archive, tmp_path / "cache").directory
    run("sign", archive, "--key", key[0])

    assert unpack(archive, tmp_path / "cache").directory == before


def test_an_extracted_archive_has_its_signature_and_builds_the_same_archive(
    run, signed, model, tmp_path
):
    plain = build_archive(model, tmp_path / "plain.mar")
    run("extract", signed, tmp_path / "x")
    again = build_archive(tmp_path / "x", tmp_path / "again.mar")
    run("extract", signed, tmp_path / "y", "--with-manifest")

    assert again.digest == plain.digest
    assert (tmp_path / "y/MAR-INF/model.sig").read_bytes().startswith(b'{"mediaType"')


def test_inspect_shows_the_signature(run, archive, signed):
    assert "signature   MAR-INF/model.sig, not checked" in run("inspect", signed)[1]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"no PEM", "is not a private key", id="no PEM"),
        pytest.param(None, "No such file", id="nothing"),
    ],
)
def test_a_key_that_is_none_is_named(run, archive, tmp_path, content, complaint):
    path = tmp_path / "k.pem"
    if content:
        path.write_bytes(content)
    status, _, err = run("sign", archive, "--key", path)

    assert status == 1
    assert err.startswith(f"servekit-archive: {path}: {complaint}")


def test_another_kind_of_key_is_refused(run, archive, tmp_path):
    from cryptography.hazmat.primitives import serialization as s

    key = ed25519.Ed25519PrivateKey.generate()
    path = tmp_path / "ed.pem"
    path.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))

    assert "is not a key on one of the curves secp256r1" in run("sign", archive, "--key", path)[2]


@pytest.mark.parametrize(
    ("command", "kind", "content"),
    [
        (
            "sign",
            "EC PRIVATE KEY",
            "MD4CAQEEDpvLaZudbVWFtVd77jFPoAcGBSuBBAAGoSADHgAELoYyz1+V6BEs3iS6QTl8uaSH5NJ33xzUjkTOMQ==",
        ),
        (
            "verify",
            "PUBLIC KEY",
            "MDIwEAYHKoZIzj0CAQYFK4EEAAYDHgAELoYyz1+V6BEs3iS6QTl8uaSH5NJ33xzUjkTOMQ==",
        ),
    ],
)
def test_a_key_on_a_curve_that_nobody_supports_is_refused(
    run, archive, tmp_path, command, kind, content
):
    """The keys are on secp112r1, by OpenSSL."""
    path = tmp_path / "k.pem"
    path.write_text(f"-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n")
    status, _, err = run(command, archive, "--key", path)

    assert status == 1
    assert f"{path}: is not a key on one of the curves secp256r1" in err


def test_a_password_that_nobody_can_enter_is_missed(run, archive, make_key, monkeypatch):
    def ask(prompt):
        raise EOFError

    private, _ = make_key("k", password=b"open sesame")
    monkeypatch.setattr("getpass.getpass", ask)

    assert f"{private}: needs a password" in run("sign", archive, "--key", private)[2]


def test_a_password_is_asked_for(run, archive, make_key, monkeypatch):
    private, public = make_key("k", password=b"open sesame")
    monkeypatch.setattr("getpass.getpass", lambda prompt: "wrong")
    assert "the password is wrong" in run("sign", archive, "--key", private)[2]

    monkeypatch.setattr("getpass.getpass", lambda prompt: "open sesame")
    assert run("sign", archive, "--key", private)[0] == 0
    assert run("verify", archive, "--key", public)[0] == 0


def test_a_damaged_archive_is_not_signed(run, archive, key):
    content = bytearray(archive.read_bytes())
    content[content.index(bytes(range(256))) + 5] ^= 1
    archive.write_bytes(content)

    assert "does not match its CRC-32" in run("sign", archive, "--key", key[0])[2]


def test_the_hook_module_is_light():
    code = "import servekit_signing.hooks, sys; print('cryptography' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "False"
