# SPDX-License-Identifier: Apache-2.0
"""Tokens are read from files and variables, and never kept as they are."""

import hashlib

import pytest

from servekit.errors import StartupError
from servekit.settings import Settings, load_settings
from servekit.settings.tokens import Tokens, open_files, read_tokens


def digests(*tokens):
    return tuple(hashlib.sha256(token).digest() for token in tokens)


def test_file_and_variable_add_up(tmp_path):
    path = tmp_path / "tokens"
    path.write_bytes(b"# who\nfirst\n\n  second== \r\n#no\n")
    settings = Settings(predict_token_file=str(path))
    found = read_tokens(settings, {"SERVEKIT_PREDICT_TOKEN": "third", "SERVEKIT_MANAGE_TOKEN": "m"})

    assert sorted(found.predict) == sorted(digests(b"first", b"second==", b"third"))
    assert found.manage == digests(b"m")


def test_no_source_no_token():
    assert read_tokens(Settings(), {"SERVEKIT_PREDICT_TOKEN": ""}) == Tokens((), ())


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(None, "predict_token_file: .*: No such file", id="not there"),
        pytest.param(b"", "has no token", id="empty"),
        pytest.param(b"\n# all\n", "has no token", id="comments alone"),
        pytest.param(b"good\nt wo\n", "line 2: not a token", id="space"),
        pytest.param(b"caf\xc3\xa9\n", "line 1: not a token", id="not ASCII"),
        pytest.param(b"a=b\n", "line 1: not a token", id="equals sign inside"),
        pytest.param(b"\0\n", "line 1: not a token", id="NUL"),
    ],
)
def test_file_that_would_not_protect_is_refused(tmp_path, content, complaint):
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(StartupError, match=complaint) as refusal:
        read_tokens(Settings(predict_token_file=str(path)), {})
    assert "t wo" not in str(refusal.value)


def test_malformed_variable_is_named_and_not_shown():
    with pytest.raises(StartupError, match=r"^SERVEKIT_MANAGE_TOKEN: not a token") as refusal:
        read_tokens(Settings(), {"SERVEKIT_MANAGE_TOKEN": "se cret"})
    assert "se cret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("mode", "is_open"),
    [(0o600, False), (0o640, False), (0o644, True), (0o602, True)],
)
def test_file_that_others_may_use_is_noticed(tmp_path, mode, is_open):
    path = tmp_path / "tokens"
    path.write_text("token")
    path.chmod(mode)

    assert open_files(Settings(manage_token_file=str(path))) == [str(path)] * is_open


def test_secrets_are_no_settings():
    environment = {"SERVEKIT_PREDICT_TOKEN": "p", "SERVEKIT_MANAGE_TOKEN": "m"}

    assert load_settings({}, None, environment) == Settings()
