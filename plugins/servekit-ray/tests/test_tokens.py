# SPDX-License-Identifier: Apache-2.0
"""Clusters that want a token, as Ray 2.60 tells of them."""

import os

import pytest
from servekit_ray import connection
from servekit_ray.connection import join, without_token_lines

from servekit.errors import StartupError

ray = pytest.importorskip("ray")
REFUSAL = b"gcs_client.cc:210: RPC error: InvalidAuthToken: missing or incorrect\n"


@pytest.mark.parametrize("hint", ["copy ~/.ray", "RAY_AUTH_MODE=token sends that of ~/.ray"])
@pytest.mark.parametrize("said", [REFUSAL, b""], ids=["refused", "no token to send"])
def test_a_refused_token_is_said_in_one_line_with_what_to_do(
    monkeypatch, capfd, tmp_path, said, hint
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if not hint.startswith("copy"):
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("t")

    def refuse(**_options):
        os.write(2, said * 3)
        raise ConnectionError("...") if said else ray.exceptions.AuthenticationError("...")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(connection, "check_reachable", lambda _address: None)
    with pytest.raises(StartupError, match=f"wants a token.*{hint}"):
        join("127.0.0.1:1")

    assert capfd.readouterr().err == ""


def test_only_the_lines_about_tokens_are_kept_from_stderr(capfd):
    said = []
    with without_token_lines(said):
        os.write(2, b"one\n" + REFUSAL + b"two\n")

    assert capfd.readouterr().err == "one\ntwo\n"
    assert said == [REFUSAL.decode()]
