# SPDX-License-Identifier: Apache-2.0
"""The rules of the plugin, as the hook applies them."""

import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest
from msgspec import structs
from servekit_archiver import build_archive
from servekit_archiver.cli import main
from servekit_policy.hooks import accept_archive
from servekit_policy.rules import RULES

from servekit.errors import PluginError
from servekit.extension import ArchiveInfo, Kept, Policy

DIGEST = "a" * 64


class Planted:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.fixture
def archive(tmp_path):
    return ArchiveInfo(
        name="digits", version="1.0", source="/srv/a.mar", path=Path("/srv/a.mar"),
        directory=tmp_path, manifest={}, digest=DIGEST,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_file(monkeypatch):
    monkeypatch.delenv("POLICY_FILE", raising=False)


def policy(*rules):
    return Policy(rules=rules)


def test_nothing_is_judged_unless_a_rule_of_the_plugin_is_named(archive):
    (archive.directory / "model.pkl").write_bytes(pickle.dumps(Planted()))

    assert accept_archive(archive, policy()) is None
    assert accept_archive(archive, policy("signed")) is None


@pytest.mark.parametrize("rule", ["no-pickle", "safe-pickle"])
def test_a_model_that_pickles_between_its_stages_is_refused(archive, rule):
    pickling = structs.replace(archive, manifest={"pickle": True})
    plain = structs.replace(archive, manifest={"pickle": False})

    assert str(accept_archive(pickling, policy(rule))) == (
        f"pickles objects between its stages (pickle in model.toml) (rule {rule})"
    )
    assert type(accept_archive(plain, policy(rule))) is Kept


def test_a_planted_pickle_is_named_with_its_import_and_the_rule(archive):
    (archive.directory / "data").mkdir()
    (archive.directory / "data/labels.txt").write_bytes(pickle.dumps(Planted()))
    found = accept_archive(archive, policy("no-pickle"))

    assert found.file == "data/labels.txt"
    assert str(found) == ("data/labels.txt: is a pickle that imports posix.system (rule no-pickle)")


def test_a_harmless_pickle_keeps_one_rule_and_breaks_the_other(archive):
    (archive.directory / "labels.pkl").write_bytes(pickle.dumps({"a": [1.0, "b"]}))

    assert accept_archive(archive, policy("safe-pickle")) == Kept(("safe-pickle",))
    assert accept_archive(archive, policy("no-pickle")).rule == "no-pickle"


def test_the_other_files_that_break_a_rule_are_named_too(archive):
    for name in "abcdef":
        (archive.directory / name).write_bytes(pickle.dumps(Planted()))
    found = accept_archive(archive, policy("safe-pickle"))

    assert found.reason == "is a pickle that imports posix.system; so do b, c, d"


def test_an_archive_without_pickles_keeps_every_rule(archive, monkeypatch, tmp_path):
    (archive.directory / "service.py").write_text("import numpy\n")
    (archive.directory / "policy.toml").write_text(f"[[allow]]\ndigest = '{DIGEST}'\n")
    monkeypatch.setenv("POLICY_FILE", str(tmp_path / "policy.toml"))

    assert accept_archive(archive, policy(*RULES)) == Kept(tuple(RULES))


def test_an_allow_list_applies_with_and_without_its_rule(archive, monkeypatch, tmp_path):
    (tmp_path / "policy.toml").write_text("[[allow]]\nname = 'other'\n")
    monkeypatch.setenv("POLICY_FILE", str(tmp_path / "policy.toml"))
    reason = f"digits 1.0 (digest {DIGEST}) is not in the policy (rule allowed)"

    assert str(accept_archive(archive, policy())) == reason
    assert str(accept_archive(archive, policy("allowed"))) == reason


def test_the_rule_allowed_needs_its_file(archive):
    with pytest.raises(PluginError, match="the rule allowed needs POLICY_FILE"):
        accept_archive(archive, policy("allowed"))


def test_the_hook_module_is_light():
    code = "import servekit_policy.hooks, sys; print('servekit_policy.rules' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "False"


# ---------------------------------------------------------------- servekit-archive verify --scan


@pytest.fixture
def verify(tmp_path, capsys):
    """Build an archive with these files, and verify it."""

    def run(**files):
        directory = tmp_path / "model"
        directory.mkdir()
        (directory / "model.toml").write_text('name = "m"\nservice = "sklearn"\n')
        for name, content in files.items():
            (directory / name).write_bytes(content)
        path = build_archive(directory, tmp_path / "m.mar").path
        return main(["verify", str(path), "--scan"]), *capsys.readouterr()

    return run


def test_scan_refuses_a_planted_pickle(verify, tmp_path):
    status, _, err = verify(weights=pickle.dumps(Planted()))

    assert status == 1
    assert err == (
        f"servekit-archive: {tmp_path}/m.mar: weights: is a pickle that imports posix.system\n"
    )


def test_scan_lists_harmless_pickles_with_their_imports(verify):
    status, out, _ = verify(a=pickle.dumps({1: 2}), b=pickle.dumps(OrderedDict()))

    assert status == 0
    assert out.splitlines()[2:] == [
        "pickle a: imports nothing", "pickle b: collections.OrderedDict",
    ]  # fmt: skip


def test_scan_says_that_there_are_no_pickles(verify):
    assert verify(a=b"text")[1].endswith("\nno pickles\n")
