# SPDX-License-Identifier: Apache-2.0
import os
import shutil
from pathlib import Path

import pytest
from servekit_archiver import ArchiveError, ManifestError, build_archive, open_archive
from servekit_archiver.zip.format import STORED


def entries(path):
    with open_archive(path) as archive:
        return dict(archive.entries)


def test_the_same_files_give_the_same_bytes(model, tmp_path):
    """Whatever the place, the order of creation, the times, the permissions and the umask."""
    other = tmp_path / "elsewhere" / "digits"
    for path in sorted(model.rglob("*"), reverse=True):
        if path.is_file():
            copy = other / path.relative_to(model)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            copy.chmod(0o755)
            os.utime(copy, (1, 1))
    one = build_archive(model, tmp_path / "one.mar")
    umask = os.umask(0o077)
    try:
        two = build_archive(other, tmp_path / "two.mar")
    finally:
        os.umask(umask)

    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.digest == two.digest


def test_an_extracted_archive_builds_to_the_same_bytes(archive, tmp_path):
    with open_archive(archive) as opened:
        opened.extract(tmp_path / "copy")

    again = build_archive(tmp_path / "copy", tmp_path / "again.mar")

    assert again.path.read_bytes() == archive.read_bytes()


def test_building_in_the_directory_itself_twice_gives_the_same_bytes(model, monkeypatch):
    monkeypatch.chdir(model)

    one = build_archive(".", "one.mar").path.read_bytes()

    assert build_archive(".", "two.mar").path.read_bytes() == one


def test_a_changed_byte_changes_the_digest(model, tmp_path):
    one = build_archive(model, tmp_path / "one.mar").digest
    (model / "data/empty").write_bytes(b"\0")

    assert build_archive(model, tmp_path / "two.mar").digest != one


@pytest.mark.parametrize(
    "suffix", ["npy", "safetensors", "onnx", "data", "bin", "pt", "pt2", "pth", "joblib", "NPY"]
)
def test_weights_are_stored_however_well_they_would_deflate(model, tmp_path, suffix):
    (model / f"w.{suffix}").write_bytes(b"0" * 9999)

    entry = entries(build_archive(model, tmp_path / "a.mar"))[f"w.{suffix}"]

    assert (entry.method, entry.start % 64) == (STORED, 0)


def test_other_files_are_deflated(archive):
    assert entries(archive)["data/labels.txt"].packed_size < 100


def test_what_does_not_belong_in_an_archive_is_left_out(model, tree, tmp_path):
    inside = {".git/config", "__pycache__/a.pyc", "a.pyc", "sub/__pycache__/b", "old.mar", ".env"}
    ignored = {"notes.md", "raw/big.csv", "sub/deep/x.tmp"}
    tree(model, dict.fromkeys(inside | ignored, "x"))
    (model / ".servekitignore").write_text("# not for serving\n*.md\nraw/\n\nsub/**/*.tmp\n")

    names = entries(build_archive(model, tmp_path / "digits.mar"))

    assert sorted(names) == [
        "data/empty",
        "data/labels.txt",
        "model.toml",
        "service.py",
        "weights.npy",
    ]


def make_link(model):
    (model / "x").symlink_to("/etc/passwd")


def make_folder_link(model):
    (model / "x").symlink_to("/tmp")


def make_dangling_link(model):
    (model / "x").symlink_to("nowhere")


def make_fifo(model):
    os.mkfifo(model / "x")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (make_link, "{}/x: is a symbolic link; an archive holds files only"),
        (make_folder_link, "{}/x: is a symbolic link; an archive holds files only"),
        (make_dangling_link, "{}/x: is a symbolic link; an archive holds files only"),
        (make_fifo, "{}/x: is not a regular file; an archive holds files only"),
        (lambda m: (m / "a\nb").touch(), "{}: the name 'a\\nb' contains a control character"),
        (lambda m: (m / "a\\b").touch(), "{}: the name 'a\\\\b' contains a backslash"),
        (
            lambda m: Path(os.fsdecode(bytes(m) + b"/\xff")).touch(),
            "{}: the name '\\udcff' is not valid Unicode",
        ),
        (
            lambda m: (m / "Service.py").touch(),
            "{}: 'Service.py' and 'service.py' are one file on some systems",
        ),
        (
            lambda m: (m / "MAR-INF").mkdir() or (m / "MAR-INF/x").touch(),
            "{}/MAR-INF/x: MAR-INF belongs to the archive format; rename it or leave it out",
        ),
        (
            lambda m: (m / ".servekitignore").write_text("!x"),
            "{}/.servekitignore: '!x': patterns that begin with ! are not known",
        ),
        (
            lambda m: (m / ".servekitignore").write_bytes(b"\xff"),
            "{}/.servekitignore: is not UTF-8 (byte 0)",
        ),
    ],
)
def test_what_an_archive_cannot_hold_is_refused_by_name(model, tmp_path, make, why):
    make(model)

    with pytest.raises(ArchiveError) as caught:
        build_archive(model, tmp_path / "a.mar")

    assert str(caught.value) == why.format(model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits"]


def test_a_problem_with_model_toml_leaves_no_file(model, tmp_path):
    (model / "model.toml").write_text('service = "other:X"\nbatching = { max_batch_size = 0 }\n')

    with pytest.raises(ManifestError) as caught:
        build_archive(model, tmp_path / "a.mar")

    assert caught.value.problems == [
        "batching.max_batch_size: 0 is below 1",
        "service: 'other:X': the model has neither other.py nor other/__init__.py",
    ]
    assert not (tmp_path / "a.mar").exists()


def test_an_existing_file_is_replaced_only_by_force(model, tmp_path):
    output = tmp_path / "a.mar"
    output.write_text("precious")

    with pytest.raises(ArchiveError, match=r"a\.mar: already exists \(--force replaces it\)"):
        build_archive(model, output)
    assert output.read_text() == "precious"
    build_archive(model, output, force=True)

    open_archive(output).__exit__()


def test_a_failed_build_leaves_the_old_archive_and_no_draft(model, archive, tmp_path):
    before = archive.read_bytes()

    def fail(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_archive(model, archive, force=True, progress=fail)

    assert archive.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits", "digits.mar"]


@pytest.mark.parametrize(
    ("output", "why"), [("/dev/null", "is not a regular file"), ("no/a.mar", "No such file")]
)
def test_an_output_that_cannot_be_written_is_refused(model, tmp_path, monkeypatch, output, why):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ArchiveError, match=why):
        build_archive(model, output, force=True)

    assert Path("/dev/null").is_char_device()


def test_the_archive_is_named_after_the_model(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert build_archive(model).path == Path("digits.mar")
    (tmp_path / "out").mkdir()
    assert build_archive(model, tmp_path / "out").path == tmp_path / "out" / "digits.mar"


@pytest.mark.parametrize("output", ["digits", "digits/data", "digits/a.mar", "link", "./digits/x"])
def test_an_archive_does_not_lie_in_the_directory_it_is_made_of(
    model, tmp_path, monkeypatch, output
):
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("digits")

    with pytest.raises(ArchiveError, match=r"is inside .*digits, the model directory"):
        build_archive(model, output)


def test_one_who_stands_in_the_directory_may_leave_the_archive_there(model, monkeypatch):
    monkeypatch.chdir(model)

    assert build_archive(".").path == Path("digits.mar")
    with pytest.raises(ArchiveError, match="x: is inside"):
        build_archive(".", "x")


def test_overrides_go_before_model_toml(model, tmp_path):
    built = build_archive(model, tmp_path / "a.mar", overrides={"name": "n", "version": "2"})

    assert (built.manifest.name, built.manifest.version) == ("n", "2")


def test_progress_ends_with_every_byte_done(model, tmp_path):
    steps = []

    build_archive(model, tmp_path / "a.mar", progress=lambda *step: steps.append(step))

    total = sum(path.stat().st_size for path in model.rglob("*") if path.is_file())
    assert steps[-1] == (total, total)
    assert steps == sorted(steps)


def test_a_file_nobody_may_read_is_named(model, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (model / "weights.npy").chmod(0)

    with pytest.raises(ArchiveError, match=r"weights\.npy: Permission denied"):
        build_archive(model, tmp_path / "a.mar")
