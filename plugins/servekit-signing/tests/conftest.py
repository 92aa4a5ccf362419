# SPDX-License-Identifier: Apache-2.0
"""Keys, archives, and the command line."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from servekit_archiver import build_archive
from servekit_archiver.cli import main

PEM = serialization.Encoding.PEM


@pytest.fixture
def make_key(tmp_path):
    """Write a private and a public key; return both paths."""

    def make(name, curve=None, password=None):
        key = ec.generate_private_key(curve or ec.SECP256R1())
        how = serialization.NoEncryption()
        if password:
            how = serialization.BestAvailableEncryption(password)
        private, public = tmp_path / f"{name}.key", tmp_path / f"{name}.pem"
        form = serialization.PrivateFormat.PKCS8
        private.write_bytes(key.private_bytes(PEM, form, how))
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        public.write_bytes(key.public_key().public_bytes(PEM, form))
        return private, public

    return make


@pytest.fixture
def key(make_key):
    return make_key("own")


@pytest.fixture
def model(tmp_path):
    directory = tmp_path / "digits"
    (directory / "data").mkdir(parents=True)
    (directory / "model.toml").write_text('name = "digits"\nservice = "service:Digits"\n')
    (directory / "service.py").write_text("class Digits: ...\n")
    (directory / "data/labels.txt").write_text("zero one two\n")
    (directory / "weights.bin").write_bytes(bytes(range(256)) * 1000)
    return directory


@pytest.fixture
def archive(model, tmp_path):
    return build_archive(model, tmp_path / "digits.mar").path


@pytest.fixture
def run(capsys):
    """Run ``servekit-archive``; return status, stdout and stderr."""

    def run_command(*arguments):
        status = main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run_command


@pytest.fixture
def signed(archive, key, run):
    """The archive, signed by ``key``."""
    assert run("sign", archive, "--key", key[0])[0] == 0
    return archive
