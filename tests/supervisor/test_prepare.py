# SPDX-License-Identifier: Apache-2.0
"""An entry of ``--models`` becomes a model that can be launched, or one line that says why not."""

import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest
from servekit_archiver import build_archive

from archiver.tests.wheels import write_wheel
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.preparing import requirements
from servekit.supervisor.preparing.child import PrepareChild
from servekit.supervisor.preparing.messages import PrepareRequest
from servekit.supervisor.preparing.prepare import answer

SETUPTOOLS = version("setuptools")


def prepare(path, cache=None, **options):
    return answer(
        PrepareRequest(str(path), cache_dir=str(cache or ""), **options), lambda step: None
    )


def test_directory_is_taken_in_place(model):
    directory = model(worker={"replicas": 3, "env": '{ A = "1" }'}, batching={"max_delay_ms": 20})
    found = prepare(directory).model

    assert (found.directory, found.python) == (str(directory), sys.executable)
    (stage,) = found.stages
    assert (stage.replicas, stage.environments, stage.max_delay_s) == (3, [{"A": "1"}], 0.02)


def test_the_name_that_a_model_is_given_replaces_that_of_its_directory(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models/model.toml").write_text('service = "sklearn"')
    place = tmp_path / "models"

    assert "'models' is reserved" in prepare(place).error
    assert prepare(place, name="digits").model.name == "digits"


def test_an_archive_in_a_directory_is_unpacked_and_has_the_name_that_it_is_given(model, tmp_path):
    (tmp_path / "models").mkdir()
    archive = build_archive(model(), tmp_path / "models" / "a.mar").path
    found = prepare(archive.parent, tmp_path / "cache", name="digits").model

    assert (found.name, found.source) == ("digits", str(archive.parent))
    assert Path(found.directory) == tmp_path / "cache" / "models" / found.digest


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have another root directory")
def test_a_directory_of_another_container_is_served_by_the_link_that_leads_there(model, tmp_path):
    """KServe links /mnt/models to /proc/PID/root/models, which has no other path here."""
    root, link = tmp_path / "image", tmp_path / "models"
    directory = model()
    (root / "served").mkdir(parents=True)
    (root / "proc").mkdir()
    code = f"import os; os.chroot('{root}'); print('ready', flush=True); input()"
    script = f"mount --bind {directory} {root}/served; mount -t proc proc {root}/proc;"
    command = ["unshare", "-m", "sh", "-c", f'{script} exec {sys.executable} -c "{code}"']
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        link.symlink_to(f"/proc/{other.pid}/root/served")
        outcome = prepare(link, name="digits")
        other.communicate(b"\n", timeout=10)

    assert (outcome.error, outcome.model.directory) == ("", str(link))


def test_a_class_in_a_file_is_a_model_of_the_directory_that_it_is_imported_from(tmp_path):
    file = tmp_path / "models" / "text.py"
    file.parent.mkdir()
    (file.parent / "__init__.py").touch()
    file.write_text("")
    found = prepare(f"{file}:WordCount").model
    before, file_size = found.digest, found.size_bytes
    file.write_text("# changed")

    assert (found.name, found.directory, file_size) == ("word-count", str(tmp_path), 0)
    assert json.loads(found.manifest)["service"] == "models.text:WordCount"
    assert prepare(f"{file}:WordCount").model.digest != before


def test_a_class_whose_name_no_model_can_have_is_refused(tmp_path):
    (tmp_path / "service.py").touch()

    assert "'docs' is reserved" in prepare(f"{tmp_path}/service.py:Docs").error
    assert prepare(f"{tmp_path}/service.py:Docs", name="pages").error == ""


def test_archive_is_unpacked_into_the_cache(model, tmp_path):
    archive = tmp_path / "digits.mar"
    build_archive(model(), archive)
    found = prepare(archive, tmp_path / "cache").model

    assert Path(found.directory).is_relative_to(tmp_path / "cache")
    assert (Path(found.directory) / "service.py").exists()


def test_other_name_is_in_the_manifest_too(model):
    found = prepare(model(), name="two").model

    assert (found.name, json.loads(found.manifest)["name"]) == ("two", "two")


def test_progress_is_told(model, tmp_path, monkeypatch):
    archive, steps = tmp_path / "digits.mar", []
    build_archive(model(), archive)
    monkeypatch.setattr("servekit.supervisor.preparing.opening.STEP_S", 0.0)
    answer(PrepareRequest(str(archive), cache_dir=str(tmp_path / "cache")), steps.append)

    assert steps[-1] == "unpacking 100 %"


def break_archive(directory):
    archive = directory.parent / "digits.mar"
    build_archive(directory, archive)
    raw = bytearray(archive.read_bytes())
    raw[raw.index(b"service.py") + 60] ^= 1  # inside its deflated bytes
    archive.write_bytes(raw)
    return archive


def ask_for_more(directory):
    (directory / "requirements.txt").write_text("no-such-package>=2\n")
    text = (directory / "model.toml").read_text()
    (directory / "model.toml").write_text('requirements = "requirements.txt"\n' + text)
    return directory


@pytest.mark.parametrize(
    ("make", "options", "complaint"),
    [
        pytest.param(lambda d: d / "nowhere", {}, "nowhere: ", id="it went meanwhile"),
        pytest.param(lambda d: d / "service.py", {}, "service.py", id="no archive"),
        pytest.param(break_archive, {}, "service.py", id="a changed byte"),
        pytest.param(lambda d: d, {"name": "no/name"}, "name: 'no/name'", id="a bad name"),
        pytest.param(lambda d: d, {"name": "ping"}, "is reserved", id="a reserved name"),
        pytest.param(
            ask_for_more,
            {},
            "requirements.txt: no-such-package>=2 is not installed. Install it, or use"
            " --install-requirements",
            id="lacking requirement",
        ),
    ],
)
def test_refusal_is_one_line(model, tmp_path, make, options, complaint):
    outcome = prepare(make(model()), tmp_path / "cache", **options)

    assert outcome.model is None
    assert complaint.replace("'", '"') in outcome.error.replace("'", '"')
    assert "\n" not in outcome.error


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start workers of another user")
def test_a_workers_user_can_read_the_assets(model, tmp_path, monkeypatch):
    """Python itself may lie where no other user can read it: here that is not the question."""
    monkeypatch.setattr(
        "servekit.supervisor.preparing.prepare.require_readable", lambda *paths: None
    )
    monkeypatch.setattr("os.umask", lambda mask: mask)  # this process lives on
    (tmp_path / "w.txt").write_bytes(b"1")
    directory, digest = model(), hashlib.sha256(b"1").hexdigest()
    asset = f'\n[assets.w]\nurl = "{(tmp_path / "w.txt").as_uri()}"\nsha256 = "{digest}"\n'
    with (directory / "model.toml").open("a") as file:
        file.write(asset)
    options = {"worker_user": "nobody", "fetch_assets": True}
    found = prepare(directory, tmp_path / "cache", **options).model
    path = Path(found.assets["w"])

    assert path.is_relative_to(tmp_path / "cache" / f"user-{pwd.getpwnam('nobody').pw_uid}")
    modes = [place.stat().st_mode & 0o777 for place in (path, path.parent, path.parent.parent)]
    assert modes == [0o444, 0o755, 0o711]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start workers of another user")
def test_a_workers_user_can_enter_the_environment(model, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "servekit.supervisor.preparing.prepare.require_readable", lambda *paths: None
    )
    monkeypatch.setattr("os.umask", lambda mask: mask)
    write_wheel(tmp_path / "packages", "sktiny", "1.0")
    directory = ask_for_more(model())
    text = f"--no-index\n--find-links {tmp_path / 'packages'}\nsktiny\n"
    (directory / "requirements.txt").write_text(text)
    options = {"worker_user": "nobody", "install_requirements": True}
    found = prepare(directory, tmp_path / "cache", **options).model
    environment = Path(found.environment)

    assert environment.is_relative_to(tmp_path / "cache" / f"user-{pwd.getpwnam('nobody').pw_uid}")
    assert found.python == str(environment / "bin" / "python")
    (module,) = environment.glob("lib/python*/site-packages/sktiny.py")
    modes = [place.stat().st_mode & 0o777 for place in (environment.parent, environment, module)]
    assert modes == [0o711, 0o755, 0o644]


# ---------------------------------------------------------------- requirements


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        pytest.param("setuptools\n", [], id="installed"),
        pytest.param("# a comment\n\nsetuptools  # why\n", [], id="comments"),
        pytest.param("setuptools>=1,<10000 --hash=sha256:00\n", [], id="hash"),
        pytest.param("setuptools>=1 \\\n  --hash=sha256:00\n", [], id="continued line"),
        pytest.param("--index-url https://x.invalid\n-c c.txt\nsetuptools\n", [], id="options"),
        pytest.param("colorama; sys_platform == 'win32'\n", [], id="marker of another system"),
        pytest.param("nope-a\nnope-b>1\n", ["nope-a", "nope-b>1"], id="all are named"),
        pytest.param("setuptools<2\n", [SETUPTOOLS], id="wrong version"),
        pytest.param("./tiny.whl\n", ["'./tiny.whl' can only be installed"], id="a file"),
    ],
)
def test_missing(text, lacking):
    found = requirements.missing(text)

    assert len(found) == len(lacking)
    assert all(part in whole for part, whole in zip(lacking, found, strict=True))


# ---------------------------------------------------------------- the child


def outcome_of(path, timeout_s=10.0, **options):
    loop, outcomes, lines = Loop(), [], []

    def done(outcome):
        outcomes.append(outcome)
        loop.stop()

    child = PrepareChild(loop, PrepareRequest(str(path), **options), timeout_s, lines.append, done)
    loop.call_later(15, lambda: pytest.fail("no outcome after 15 s"))
    return loop, child, outcomes


def test_child_answers(model):
    loop, _child, outcomes = outcome_of(model())
    loop.run()

    assert outcomes[0].model.name == "digits"


@pytest.mark.parametrize(
    ("act", "timeout_s", "error"),
    [
        pytest.param(
            lambda child: child._child.process.kill(), 10, "prepare exited with -9", id="killed"
        ),
        pytest.param(lambda child: child.kill(), 10, "stopped", id="stopped"),
        pytest.param(
            lambda child: child._child.process.signal(19),
            0.5,
            "not prepared after 0.5 s",
            id="hangs",
        ),
    ],
)
def test_child_that_does_not_answer(model, act, timeout_s, error):
    loop, child, outcomes = outcome_of(model(), timeout_s)
    act(child)
    loop.run()

    assert [outcome.error for outcome in outcomes] == [error]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other users")
def test_a_model_directory_in_memory_changes_the_rights_of_no_other_directory(
    tmp_path, monkeypatch
):
    """It is the operator's, and not one that was made for decrypted files."""
    monkeypatch.chdir(tmp_path)
    place = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        place.chmod(0o755)
        (place / "service.py").write_text(
            "from servekit import Service\n\nclass Any(Service): pass\n"
        )
        (place / "model.toml").write_text('service = "service:Any"\n')
        before = {each: stat_of(each) for each in (place, tmp_path, tmp_path.parent)}
        prepare(place, tmp_path / "cache", worker_user="nobody")
        assert {each: stat_of(each) for each in before} == before
    finally:
        shutil.rmtree(place)


def stat_of(path):
    """Return mode and group."""
    found = path.stat()
    return found.st_mode, found.st_gid
