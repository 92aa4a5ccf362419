# SPDX-License-Identifier: Apache-2.0
import pytest
from servekit_archiver import (
    ArchiveError,
    EnclosedArchive,
    ManifestError,
    build_archive,
    load_directory,
    open_archive,
    open_directory,
)
from servekit_archiver.errors import NotRecognised


def nobody(directory):
    return None


def test_two_lines_are_enough(tree, tmp_path):
    path = tree(tmp_path / "m", {"model.toml": 'name = "iris"\nservice = "sklearn"\n'})

    manifest = load_directory(path)

    assert (manifest.name, manifest.service, manifest.files) == ("iris", "sklearn", {})


def test_the_name_is_the_directorys_unless_given(tree, tmp_path, monkeypatch):
    monkeypatch.chdir(tree(tmp_path / "iris", {"model.toml": 'service = "sklearn"'}))

    assert load_directory(".").name == "iris"


def test_a_plugin_fills_what_model_toml_leaves_out(tree, tmp_path):
    path = tree(tmp_path / "m", {"model.toml": "batching = { max_batch_size = 4 }", "x": ""})
    offer = {"service": "onnx", "name": "n", "batching": {"max_batch_size": 9, "max_delay_ms": 1}}

    manifest = load_directory(path, lambda directory: offer)

    assert (manifest.service, manifest.name) == ("onnx", "n")
    assert (manifest.batching.max_batch_size, manifest.batching.max_delay_ms) == (4, 1)


def test_a_directory_without_model_toml_may_be_recognised(tree, tmp_path):
    path = tree(tmp_path / "mlp", {"mlp.onnx": ""})

    manifest = load_directory(path, lambda directory: {"service": "onnx"})

    assert (manifest.name, manifest.service) == ("mlp", "onnx")


def test_a_directory_that_nothing_knows_says_what_to_write(tree, tmp_path):
    path = tree(tmp_path / "m", {"x": ""})

    with pytest.raises(ArchiveError) as caught:
        load_directory(path, nobody)

    assert f"{path}/model.toml" in str(caught.value)
    assert 'name = "m"' in str(caught.value)
    with pytest.raises(ArchiveError, match='name = "digits"'):
        load_directory(path, nobody, name="digits")
    assert "service" in str(caught.value)


def test_a_plugin_is_not_asked_when_a_service_is_named(tree, tmp_path):
    path = tree(tmp_path / "m", {"model.toml": 'service = "onnx"'})

    def fail(directory):
        raise AssertionError("asked")

    assert load_directory(path, fail).service == "onnx"


@pytest.mark.parametrize(
    ("toml", "problems"),
    [
        ("", ["service: is missing"]),
        ("a = ", ["is not TOML: Invalid value (at end of document)"]),
        ("name = 1\nname = 2", ["is not TOML: Cannot overwrite a value"]),
        ("x = " + "[" * 5000, ["is nested too deeply, limit 32"]),
        ("#" * 1_100_000, ["is larger than 1048576 bytes"]),
        (b"\xff", ["is not UTF-8 (byte 0)"]),
        ('service="s:S"', ["service: 's:S': the model has neither s.py nor s/__init__.py"]),
        ('service="onnx"\nformat=1\nfiles={}', ["format: is written", "files: is written"]),
        ('service="onnx"\nsevice=1', ["sevice: unknown key; did you mean service?"]),
        ('service="onnx"\nversion=1.0', ["version: 1.0 is a number, not a string; put it in q"]),
        ('service="onnx"\noptions={a=2026-01-02}', ["options.a: datetime.date(2026, 1, 2) is a"]),
        ('service="onnx"\noptions={a=inf}', ["options.a: inf is not a finite number"]),
        ('service="onnx"\nname="a b"\nworker={replicas=0}', ["name: 'a b' is", "worker.replicas"]),
    ],
)
def test_every_problem_of_model_toml_is_named(tree, tmp_path, toml, problems):
    path = tree(tmp_path / "m", {"model.toml": toml})

    with pytest.raises(ManifestError) as caught:
        load_directory(path, nobody)

    found = caught.value.problems
    assert len(found) == len(problems)
    assert all(line.startswith(start) for line, start in zip(found, problems, strict=True)), found
    assert caught.value.source == "model.toml"


@pytest.mark.parametrize(("name", "why"), [("no", "no such directory"), ("f", "is not a dir")])
def test_what_is_no_directory_is_refused(tmp_path, name, why):
    (tmp_path / "f").touch()

    with pytest.raises(ArchiveError, match=why):
        load_directory(tmp_path / name, nobody)


def test_a_directory_extracted_with_its_manifest_is_the_archive(tmp_path):
    source = tmp_path / "named-by-its-folder"
    source.mkdir()
    (source / "service.py").write_text("")
    overrides = {"service": "service:S", "options": {"file": "x"}}  # nowhere in the directory
    build_archive(source, tmp_path / "m.mar", overrides=overrides)
    with open_archive(tmp_path / "m.mar") as archive:
        archive.extract(tmp_path / "other", with_manifest=True)

        assert load_directory(tmp_path / "other") == archive.manifest


def test_a_manifest_that_is_no_manifest_is_refused_with_its_reason(tmp_path):
    (tmp_path / "MAR-INF").mkdir()
    (tmp_path / "MAR-INF" / "MANIFEST.json").write_text("{")

    with pytest.raises(ManifestError):
        load_directory(tmp_path)


def test_an_extracted_manifest_of_any_size_is_not_read_whole(tmp_path):
    (tmp_path / "MAR-INF").mkdir()
    (tmp_path / "MAR-INF" / "MANIFEST.json").write_bytes(b" " * ((4 << 20) + 1))

    with pytest.raises(ArchiveError, match="is larger than 4194304 bytes"):
        load_directory(tmp_path)


@pytest.fixture
def archive(tree, tmp_path):
    """An archive, and nothing else, in a directory."""
    tree(tmp_path / "digits", {"model.toml": 'service = "s:S"\nversion = "7"\n', "s.py": ""})
    (tmp_path / "mounted").mkdir()
    return build_archive(tmp_path / "digits", tmp_path / "mounted/digits.mar").path


def test_the_only_archive_in_a_directory_is_its_model(archive):
    found = open_directory(archive.parent, nobody)

    assert found == EnclosedArchive(archive)


def test_a_directory_with_two_archives_is_refused_with_their_names(archive):
    archive.with_name("more.mar").write_bytes(archive.read_bytes())
    archive.with_name(".hidden.mar").touch()

    with pytest.raises(ArchiveError, match=r"holds 2 archives \(digits.mar, more.mar\); name one"):
        open_directory(archive.parent, nobody)


def test_files_that_a_plugin_knows_are_the_model_rather_than_an_archive_beside_them(archive):
    found = open_directory(archive.parent, lambda directory: {"service": "onnx"})

    assert found.service == "onnx"


def test_a_broken_plugin_does_not_keep_an_archive_from_being_found(archive):
    def recognise(directory):
        raise NotRecognised("not recognised, and these plugins failed: a")

    assert open_directory(archive.parent, recognise) == EnclosedArchive(archive)
    archive.unlink()
    with pytest.raises(NotRecognised, match="these plugins failed"):
        open_directory(archive.parent, recognise)


def test_what_a_plugin_says_of_an_archive_goes_before_its_manifest(archive):
    keys = {"worker": {"replicas": 3}, "batching": {"max_batch_size": 4}}
    offer = {"archive": "digits.mar", **keys}
    found = open_directory(archive.parent, lambda directory: offer)
    with open_archive(found.path) as opened:
        manifest = found.amend(opened.manifest)

    assert (manifest.worker.replicas, manifest.batching.max_batch_size) == (3, 4)
    assert (manifest.service, manifest.version, {*manifest.files}) == (
        "s:S",
        "7",
        {"model.toml", "s.py"},
    )


def test_a_directory_with_an_archive_is_not_packed_again(archive):
    with pytest.raises(ArchiveError, match=r"the model is the archive digits.mar in it; name that"):
        build_archive(archive.parent, recognise=nobody)
