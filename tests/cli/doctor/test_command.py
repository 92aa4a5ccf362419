# SPDX-License-Identifier: Apache-2.0
"""``servekit doctor`` of this machine, as a command."""

import json

import pytest

from servekit.cli import main
from servekit.cli.doctor import examination


@pytest.fixture
def doctor(capsys, monkeypatch, tmp_path):
    """Return ``doctor(*words)``: exit status, and the findings of each check, of settings alone."""
    monkeypatch.setattr(examination, "CHECKS", ())
    monkeypatch.setattr(examination, "check_plugins", lambda setup: ())

    def run(*words):
        status = main(["doctor", "--json", "--run-dir", str(tmp_path), *words])
        rows = json.loads(capsys.readouterr().out)["checks"]
        return status, {row["check"]: [each["text"] for each in row["findings"]] for row in rows}

    return run


def test_settings_that_are_fine(doctor):
    assert doctor("--port", "0") == (0, {"settings": []})


def test_errors_of_the_settings_file_are_findings(doctor, tmp_path):
    (tmp_path / "servekit.toml").write_text("prot = 80\n")
    status, found = doctor("--config", str(tmp_path / "servekit.toml"))

    assert status == 2
    assert "unknown key 'prot'" in found["settings"][0]


def test_a_server_that_is_asked_for_and_does_not_run(capsys, tmp_path):
    assert main(["doctor", "--pid", "1", "--run-dir", str(tmp_path)]) == 1
    assert "no server with pid 1" in capsys.readouterr().err
