# SPDX-License-Identifier: Apache-2.0
"""Models with conflicting packages in one server, built once, also without an index."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from servekit_archiver import ArchiveError, build_archive, lock_directory

from archiver.tests.wheels import write_wheel

from .conftest import BIN, Server
from .test_swaps import Management

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NOWHERE = "http://127.0.0.1:9/simple"
SERVICE = """
from servekit import Service
import {module}

class Tells(Service):
    def predict(self, batch):
        return [[{expression}, item] for item in batch]
"""
TOML = 'name = "{name}"\nservice = "service:Tells"\nrequirements = "requirements.txt"\n'


def write_model(
    directory: Path, module: str, expression: str, requirements: str, python: str = ""
) -> Path:
    """Write and lock a model that answers with *expression*, and return its archive."""
    directory.mkdir()
    (directory / "model.toml").write_text(TOML.format(name=directory.name))
    (directory / "service.py").write_text(SERVICE.format(module=module, expression=expression))
    (directory / "requirements.txt").write_text(requirements)
    lock_directory(directory, wheels=True, python=python)
    return build_archive(directory, directory.with_suffix(".mar")).path


@pytest.fixture
def packages(tmp_path, monkeypatch):
    pytest.importorskip("uv", reason="the extra lock is not installed")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    for version in ("1.0", "2.0"):
        write_wheel(tmp_path / "packages", "sktiny", version)
    return tmp_path / "packages"


@pytest.fixture
def two(tmp_path, packages):
    """Archives of the models ``one`` and ``two``, which need different versions."""
    need = f"--no-index\n--find-links {packages}\nsktiny=="
    return [
        write_model(tmp_path / name, "sktiny", "sktiny.VERSION", f"{need}{version}\n")
        for name, version in (("one", "1.0"), ("two", "2.0"))
    ]


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a server in *tmp_path* that can reach no index."""
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    servers = []

    def begin(*models):
        servers.append(Server(tmp_path, "--install-requirements", "--models", *map(str, models)))
        return servers[-1].wait_ready()

    yield begin
    for server in servers:
        server.stop()


def answers(server, *names):
    names = names or ("one", "two")
    return [json.loads(server.post(f"/{name}/predict", b"7")[2]) for name in names]


def env(tmp_path, *arguments):
    command = [BIN / "servekit", "env", *arguments, "--json", "--cache-dir", tmp_path / "cache"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


VERSION = "'.'.join(map(str, sys.version_info[:2]))"
TOLD = [{"prediction": ["1.0", 7]}, {"prediction": ["2.0", 7]}]


@pytest.mark.slow
def test_conflicting_versions_serve_side_by_side_and_are_built_once(start, two, tmp_path):
    first = start(*two)
    assert answers(first) == TOLD
    built = {each["path"]: each["last_used"] for each in env(tmp_path, "list")}
    logs = {path: path.stat().st_mtime_ns for path in tmp_path.glob("cache/environments/*.log")}
    first.stop()

    second = start(*two)

    assert answers(second) == TOLD
    assert len(built) == 2
    assert {each["path"] for each in env(tmp_path, "list")} == built.keys()
    assert {path: path.stat().st_mtime_ns for path in logs} == logs


@pytest.mark.slow
def test_a_swap_takes_the_packages_of_the_new_version_along(
    start, packages, tmp_path, tmp_path_factory
):
    write_wheel(packages, "sktiny", "3.0")

    def version(number, packed):
        need = f"--no-index\n--find-links {packages}\nsktiny=={packed}\n"
        (tmp_path / str(number)).mkdir()
        model = tmp_path / str(number) / "one"
        write_model(model, "sktiny", "sktiny.VERSION", need)
        with (model / "model.toml").open("a") as file:
            file.write(f'version = "{number}"\n')
        if number == 3:
            write_wheel(model / "requirements.wheels", "sktiny", packed, "sksomething-else")
        return str(build_archive(model, model.with_suffix(".mar"), force=True).path)

    run_dir = tmp_path_factory.mktemp("r")
    server = start(version(1, "1.0"), "--run-dir", run_dir)
    (path,) = run_dir.glob("servekit-run-*/manage.sock")
    with closing(Management(path)) as management:
        assert answers(server, "one") == TOLD[:1]
        for number, packed, state in ((2, "2.0", "done"), (3, "3.0", "failed")):
            row = management.do(
                *("POST", "/models/one/swap"),
                source=version(number, packed),
                shift=[],
                watch_s=0.0,
                keep_s=0.0,
            )
            assert row.get("state", "failed") == state, row
            assert answers(server, "one") == [{"prediction": ["2.0", 7]}]
    assert "DO NOT MATCH THE HASHES" in str(row)


@pytest.mark.slow
def test_prune_leaves_what_a_server_uses(start, two, tmp_path):
    server = start(two[0])
    start(two[1]).stop()

    (used,) = [each for each in env(tmp_path, "list") if each["is_used"]]
    (gone,) = env(tmp_path, "prune")

    assert gone["packages"] == ["sktiny==2.0"]
    assert [each["path"] for each in env(tmp_path, "list")] == [used["path"]]
    assert server.post("/one/predict", b"7")[0] == 200


def test_cache_lists_and_removes_all_kinds(start, two, tmp_path):
    server = start(*two)
    command = [BIN / "servekit", "cache"]
    where = ["--cache-dir", tmp_path / "cache"]

    listed = subprocess.run([*command, "list", *where], capture_output=True, text=True, check=True)
    subprocess.run([*command, "prune", *where], check=True)
    assert answers(server) == TOLD
    server.stop()
    subprocess.run([*command, "prune", *where], check=True)

    assert listed.stdout.count("environment  ") == listed.stdout.count("model  ") == 2
    assert list(tmp_path.glob("cache/models/*")) == []
    assert list(tmp_path.glob("cache/environments/*")) == []


@pytest.mark.slow
def test_two_versions_of_numpy(start, tmp_path, monkeypatch):
    """Workers of the server use numpy, too; it takes an index to lock it, and none to serve."""
    pytest.importorskip("uv", reason="the extra lock is not installed")
    index = os.environ["PIP_INDEX_URL"]
    monkeypatch.delenv("PIP_INDEX_URL")
    expression = "[numpy.__version__[:2], float(numpy.ones(3).sum())]"
    try:
        models = [
            write_model(tmp_path / name, "numpy", expression, f"numpy{version}\n")
            for name, version in (("one", "<2"), ("two", ">=2"))
        ]
    except ArchiveError as error:
        pytest.skip(f"no index: {error}")
    monkeypatch.setenv("PIP_INDEX_URL", index)

    server = start(*models)

    assert answers(server) == [{"prediction": [[v, 3.0], 7]} for v in ("1.", "2.")]


@pytest.mark.slow
def test_a_lock_for_another_python(start, packages, tmp_path, monkeypatch):
    """What workers need is installed, too, which takes an index."""
    monkeypatch.delenv("PIP_INDEX_URL")
    need = f"--no-index\n--find-links {packages}\nsktiny\n"
    python = "3.12" if sys.version_info[:2] != (3, 12) else "3.13"
    try:
        model = write_model(tmp_path / "one", "sys, sktiny", VERSION, need, python)
    except ArchiveError as error:
        pytest.skip(str(error))

    server = start(model)

    assert json.loads(server.post("/one/predict", b"7")[2]) == {"prediction": [python, 7]}
