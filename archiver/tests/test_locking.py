# SPDX-License-Identifier: Apache-2.0
"""``build --lock`` and ``--wheels``, with packages that no index has."""

import pytest
from servekit_archiver import ArchiveError, build_archive, load_directory, lock_directory
from servekit_archiver.cli import main
from servekit_archiver.locking import tools

from archiver.tests.wheels import write_wheel

pytestmark = pytest.mark.slow

TOML = 'name="m"\nservice="service:M"\nrequirements="requirements.txt"\n'


@pytest.fixture
def model(tree, tmp_path, monkeypatch):
    """A model that needs ``one``, which needs ``two``."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    for version in ("1.0", "2.0"):
        write_wheel(tmp_path / "packages", "skone", version, "sktwo>=1")
        write_wheel(tmp_path / "packages", "sktwo", version)
    text = f"--no-index\n--find-links {tmp_path / 'packages'}\nskone<2\n"
    files = {"model.toml": TOML, "service.py": "class M: ...\n", "requirements.txt": text}
    return tree(tmp_path / "m", files)


@pytest.fixture
def uv():
    pytest.importorskip("uv", reason="the extra lock is not installed")


def pins(model):
    lines = (model / "requirements.lock").read_text().splitlines()
    return [line.split()[0] for line in lines if "==" in line]


@pytest.mark.usefixtures("uv")
def test_a_lock_pins_every_package_with_hashes(model, capsys):
    lock = lock_directory(model)

    text = (model / "requirements.lock").read_text()
    assert pins(model) == ["skone==1.0", "sktwo==2.0"]
    assert text.count("--hash=sha256:") == 2
    assert "--no-index\n--find-links" in text
    assert (lock.file, lock.python, lock.wheels) == ("requirements.lock", tools.RUNNING, None)
    assert load_directory(model).lock == lock


@pytest.mark.usefixtures("uv")
def test_older_versions_are_kept_where_they_fit(model, tmp_path):
    lock_directory(model)
    write_wheel(tmp_path / "packages", "skone", "1.5", "sktwo<2")

    lock_directory(model)
    assert pins(model) == ["skone==1.0", "sktwo==2.0"]
    (model / "requirements.lock").unlink()
    lock_directory(model)
    assert pins(model) == ["skone==1.5", "sktwo==1.0"]


@pytest.mark.usefixtures("uv")
def test_build_packs_the_lock_and_the_wheels(model, tmp_path, capsys):
    assert main(["build", str(model), "-o", str(tmp_path / "m.mar"), "--wheels"]) == 0
    assert "locking requirements.txt for Python" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "m.mar")]) == 0

    shown = capsys.readouterr().out
    assert f"lock        requirements.lock for Python {tools.RUNNING}, 2 wheels, " in shown
    assert "requirements.wheels/sktwo-2.0-py3-none-any.whl" in shown


@pytest.mark.usefixtures("uv")
def test_the_extracted_directory_gives_the_same_archive(model, tmp_path):
    lock_directory(model, wheels=True)
    first = build_archive(model, tmp_path / "a.mar")
    main(["extract", str(first.path), str(tmp_path / "copy")])

    again = build_archive(tmp_path / "copy", tmp_path / "b.mar")

    assert again.digest == first.digest
    assert again.manifest.lock == load_directory(model).lock


@pytest.mark.usefixtures("uv")
def test_wheels_that_the_lock_does_not_name_are_removed(model):
    write_wheel(model / "requirements.wheels", "skold", "1.0")

    lock_directory(model, wheels=True)

    names = sorted(path.name for path in (model / "requirements.wheels").iterdir())
    assert names == ["skone-1.0-py3-none-any.whl", "sktwo-2.0-py3-none-any.whl"]


@pytest.mark.usefixtures("uv")
def test_a_new_lock_brings_the_wheels_up_to_date(model):
    lock_directory(model, wheels=True)
    with (model / "requirements.txt").open("a") as file:
        file.write("sktwo<2\n")

    lock_directory(model)

    names = sorted(path.name for path in (model / "requirements.wheels").iterdir())
    assert names == ["skone-1.0-py3-none-any.whl", "sktwo-1.0-py3-none-any.whl"]


@pytest.mark.usefixtures("uv")
def test_changed_requirements_are_refused(model, tmp_path):
    lock_directory(model)
    (model / "requirements.txt").write_text("skone\n")

    for use in (load_directory, lambda path: build_archive(path, tmp_path / "m.mar")):
        with pytest.raises(ArchiveError, match=r"requirements\.txt has changed since"):
            use(model)


@pytest.mark.usefixtures("uv")
def test_versions_that_do_not_fit_are_said_in_one_line(model):
    with (model / "requirements.txt").open("a") as file:
        file.write("sktwo<1\n")

    with pytest.raises(ArchiveError, match=r"requirements\.txt: uv: .*sktwo<1") as refused:
        lock_directory(model)

    assert "\n" not in str(refused.value)


def test_uv_must_be_there(model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uv", None)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(ArchiveError, match=r"pip install 'servekit-archiver\[lock\]'"):
        lock_directory(model)


@pytest.mark.parametrize(
    ("files", "arguments", "why"),
    [
        ({"model.toml": 'service="a"\n'}, ["--lock"], "names no requirements"),
        ({"requirements.lock": "one==1\n"}, ["--lock"], "was not written by servekit-archive"),
        ({}, ["--lock", "--python", "3.9"], "python: '3.9' is not a version from 3.11 on"),
        ({}, ["--python", "3.12"], "--python: requires --lock or --wheels"),
        ({"model.toml": f'{TOML}lock = {{file = "a"}}'}, [], "lock: is written by the archiver"),
        ({"requirements.lock": "# servekit lock 2: Python 3.11, requirements SHA-256 0\n"}, [],
         "is version 2, newer than 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_locked_is_refused(model, tree, tmp_path, capsys, files, arguments, why):
    tree(model, files)

    assert main(["build", str(model), "-o", str(tmp_path / "m.mar"), *arguments]) == 1
    assert why in capsys.readouterr().err


def test_a_lock_of_another_program_is_an_ordinary_file(model, tree, tmp_path):
    tree(model, {"requirements.lock": "one==1\n"})

    built = build_archive(model, tmp_path / "m.mar")

    assert built.manifest.lock is None
    assert "requirements.lock" in built.manifest.files
