# SPDX-License-Identifier: Apache-2.0
"""``migrate``: a model that a plugin knows becomes an archive, with a report."""

import json

import pytest
from servekit_archiver import open_archive
from servekit_archiver.cli import exit_status as exits
from servekit_archiver.cli import main

PLUGIN = """
from servekit_archiver import hookimpl

@hookimpl
def recognise_model(directory):
    if (directory / "OLD").is_file():
        return {"service": "old", "options": {"depth": 3}}
"""
REPORT = """
@hookimpl
def explain_migration(directory):
    from servekit_archiver.migration import MigrationRow

    if (directory / "OLD").is_file():
        return [MigrationRow("deep: 3", "[options] depth = 3"), MigrationRow("wide: 1", note="no")]
"""


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command with a plugin installed; return status, stdout and the lines of stderr."""

    def install(source):
        (tmp_path / "old_format.py").write_text(source)
        info = tmp_path / "old_format-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: old-format\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[servekit]\nold = old_format\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(__import__("sys").modules, "old_format", raising=False)

    def run_command(*arguments, plugin=PLUGIN + REPORT):
        install(plugin)
        status = main(["migrate", *map(str, arguments)])
        out, err = capsys.readouterr()
        return status, out, err.splitlines()

    return run_command


@pytest.fixture
def old(tree, tmp_path):
    """A model in the format that the plugin knows."""
    return tree(tmp_path / "resnet.v2", {"OLD": "", "weights.bin": "1234"})


def test_the_report_says_what_became_of_each_setting(run, old, tmp_path):
    status, out, err = run(old, "-o", tmp_path / "new.mar")

    head, digest, blank, *table = out.splitlines()
    assert (status, err) == (exits.OK, [])
    assert head.startswith(f"{tmp_path}/new.mar: resnet.v2 1.0, 2 files, ")
    assert (digest[:7], blank) == ("digest ", "")
    assert table == [
        "before   now                  note",
        "deep: 3  [options] depth = 3",
        "wide: 1  -                    no",
    ]


def test_the_source_is_not_replaced(run, tmp_path):
    source = tmp_path / "resnet.old"
    source.write_text("the only copy")
    status, _, err = run(source, "-o", source, "--force")

    assert (status, source.read_text()) == (exits.REFUSED, "the only copy")
    assert err == [f"servekit-archive: {source}: is the model to migrate, and is not replaced"]


def test_the_archive_is_one_of_ours(run, old, tmp_path):
    run(old, "-o", tmp_path / "new.mar", "--name", "resnet", "--version", "2.0")

    with open_archive(tmp_path / "new.mar") as archive:
        archive.verify()
        manifest = archive.manifest
    assert (manifest.name, manifest.version, manifest.service) == ("resnet", "2.0", "old")
    assert manifest.options == {"depth": 3}
    assert sorted(manifest.files) == ["OLD", "weights.bin"]


def test_the_report_as_json(run, old, tmp_path):
    _, out, _ = run(old, "-o", tmp_path / "new.mar", "--json")

    report = json.loads(out)
    assert (report["name"], report["version"]) == ("resnet.v2", "1.0")
    assert report["settings"] == [
        {"before": "deep: 3", "now": "[options] depth = 3", "note": ""},
        {"before": "wide: 1", "now": "", "note": "no"},
    ]


def test_a_plugin_that_says_nothing_is_quoted(run, old, tmp_path):
    _, out, _ = run(old, "-o", tmp_path / "new.mar", plugin=PLUGIN)

    assert 'recognised  service = "old"' in out
    assert 'recognised  options = {"depth": 3}' in out


def test_a_manifest_of_the_other_format_gives_way_to_ours(run, old, tree, tmp_path):
    tree(old, {"MAR-INF/MANIFEST.json": "{}", "data/MAR-INF.txt": "kept"})

    status, _, err = run(old, "-o", tmp_path / "new.mar")

    assert (status, err) == (exits.OK, [])
    with open_archive(tmp_path / "new.mar") as archive:
        assert sorted(archive.manifest.files) == [
            "FOREIGN-INF/MANIFEST.json",
            "OLD",
            "data/MAR-INF.txt",
            "weights.bin",
        ]
    assert (old / "MAR-INF/MANIFEST.json").read_text() == "{}"


def test_an_existing_file_is_replaced_only_by_force(run, old, tmp_path):
    (tmp_path / "new.mar").write_text("precious")

    status, _, err = run(old, "-o", tmp_path / "new.mar")

    assert (status, len(err)) == (exits.REFUSED, 1)
    assert "already exists (--force replaces it)" in err[0]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        pytest.param({"a.txt": ""}, "no installed plugin knows this format", id="unknown"),
        pytest.param({"model.toml": ""}, "has a model.toml: pack it with build", id="ours"),
    ],
)
def test_a_directory_that_cannot_be_migrated_says_why(run, tree, tmp_path, files, reason):
    status, out, err = run(tree(tmp_path / "new", files), "-o", tmp_path / "new.mar")

    assert (status, out) == (exits.REFUSED, "")
    assert err == [f"servekit-archive: {tmp_path}/new: {reason}"]
    assert not (tmp_path / "new.mar").exists()


def test_an_archive_of_ours_is_refused(run, archive, tmp_path):
    status, _, err = run(archive, "-o", tmp_path / "new.mar")

    assert status == exits.REFUSED
    assert err == [f"servekit-archive: {archive}: is an archive of servekit already"]


def test_a_file_that_no_plugin_knows_is_refused(run, tmp_path):
    (tmp_path / "notes.txt").write_text("not an archive")

    status, _, err = run(tmp_path / "notes.txt", "-o", tmp_path / "new.mar")

    assert (status, len(err)) == (exits.REFUSED, 1)
    assert not (tmp_path / "new.mar").exists()


def test_what_a_plugin_refuses_is_told_in_its_words(run, old, tmp_path):
    plugin = PLUGIN.replace("return {", "raise Refused('OLD: depth is missing')\n        return {")
    plugin += "\n\nclass Refused(Exception):\n    pass\n"
    status, _, err = run(old, "-o", tmp_path / "new.mar", plugin=plugin)

    assert status == exits.REFUSED
    assert err == [f"servekit-archive: {old}: plugin old: OLD: depth is missing"]
