# SPDX-License-Identifier: Apache-2.0
"""Entries, environment, run directory and listeners: what is settled before anything starts."""

import os
import re
import socket
import stat
from pathlib import Path

import pytest

from servekit.errors import StartupError
from servekit.settings.models import ModelSource, parse_models
from servekit.supervisor.os.environment import (
    KEPT,
    prepare_environment,
    withheld,
    worker_environment,
)
from servekit.supervisor.os.exits import likely_reason, oom_kills
from servekit.supervisor.os.listeners import bind_tcp, url_of
from servekit.supervisor.os.resources import usable_cores
from servekit.supervisor.os.run_directory import RunDirectory
from servekit.supervisor.os.user import user_of_model
from servekit.supervisor.reporting.notices import variables_withheld
from servekit.system import cgroups

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.mar", "a.mar.enc", "b=c.mar", "service.py", "odd.py:Digits"):
        Path(name).touch()
    Path("digits").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "name", "path", "called"),
    [
        pytest.param("a.mar", "", "a.mar", "a", id="archive"),
        pytest.param("digits", "", "digits", "digits", id="directory"),
        pytest.param("two=a.mar", "two", "a.mar", "two", id="another name"),
        pytest.param("./b=c.mar", "", "b=c.mar", "b=c", id="an equals sign in the path"),
        pytest.param("b=c.mar", "", "b=c.mar", "b=c", id="an equals sign in a file that is there"),
        pytest.param(
            "service.py:GPTReader2", "", "service.py:GPTReader2", "gpt-reader2", id="class"
        ),
        pytest.param("a.mar.enc", "", "a.mar.enc", "a", id="encrypted"),
        pytest.param("x=service.py:A", "x", "service.py:A", "x", id="class under another name"),
        pytest.param("odd.py:Digits", "", "odd.py:Digits", "odd", id="a file named like a class"),
    ],
)
def test_entry(here, text, name, path, called):
    (entry,) = parse_models([text])

    assert entry == ModelSource(str(here / path), name)
    assert entry.provisional_name == called


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        pytest.param([], "models: none given", id="nothing"),
        pytest.param(["x.mar"], "models: x.mar: no such file or directory", id="no such file"),
        pytest.param(["x=y.mar"], "models: y.mar: no such file", id="no such named file"),
        pytest.param(["M=a.mar", "m=digits"], "models: M and m are the same name", id="clash"),
        pytest.param(
            ["m=a.mar", "m=digits"], "models: two models are called 'm': ", id="clash of one letter"
        ),
        pytest.param(["=a.mar"], "models: '=a.mar': the name is empty", id="empty name"),
        pytest.param(["two="], "models: 'two=': the path is empty", id="empty path"),
        pytest.param(["two=s3://"], "'two=s3://': nothing follows the scheme", id="half a URL"),
        pytest.param(["x" * 5000], "x: file name too long", id="longer than any path"),
        pytest.param(["a.mar/b"], "models: a.mar/b: not a directory", id="below a file"),
        pytest.param(["a\0.mar"], "models: ", id="no path at all"),
        pytest.param(["service.py"], "name its class, too: service.py:CLASS", id="no class"),
        pytest.param(["x.py:A"], "models: x.py:A: no such file", id="class of no file"),
    ],
)
def test_entries_are_refused(here, texts, complaint):
    with pytest.raises(StartupError, match=complaint):
        parse_models(texts)


def test_worker_environment_holds_no_secret():
    ours = {"PATH": "/bin", "HOME": "/h", "AWS_SECRET": "s", "SERVEKIT_TOKEN": "t", "LC_ALL": "C"}
    seen = worker_environment(ours, 2, {"MINE": "1"})

    assert seen.keys() & {*ours, "MINE"} == {"PATH", "HOME", "LC_ALL", "MINE"}


@pytest.mark.parametrize(
    ("ours", "own", "threads"),
    [
        pytest.param({}, {}, "3", id="share of the cores"),
        pytest.param({"OMP_NUM_THREADS": "7"}, {}, "7", id="the operator knows better"),
        pytest.param({"OMP_NUM_THREADS": "7"}, {"OMP_NUM_THREADS": "1"}, "1", id="the author best"),
    ],
)
def test_threads_of_a_worker(ours, own, threads):
    assert worker_environment(ours, 3, own)["OMP_NUM_THREADS"] == threads


def test_prepare_environment_is_ours_without_our_settings():
    assert prepare_environment({"PIP_INDEX_URL": "u", "SERVEKIT_TOKEN": "t"}) == {
        "PIP_INDEX_URL": "u"
    }


def test_there_is_a_core():
    assert 1 <= usable_cores() <= os.cpu_count()


def test_run_directory_is_private_and_goes(run_dir):
    run = RunDirectory(str(run_dir))
    mode = stat.S_IMODE(run.path.stat().st_mode)
    run.remove()

    assert (mode, list(run_dir.iterdir())) == (0o700, [])


def test_leftovers_are_swept_and_the_living_are_not(run_dir):
    living = RunDirectory(str(run_dir))
    dead = RunDirectory(str(run_dir))
    os.close(dead._lock)  # as the kernel does when a process is killed
    (run_dir / "servekit-run-in-the-making").mkdir()
    new = RunDirectory(str(run_dir))
    left = {path.name for path in run_dir.iterdir()}
    living.remove()
    new.remove()

    assert left == {living.path.name, new.path.name, "servekit-run-in-the-making"}


@pytest.mark.parametrize(
    ("parent", "complaint"),
    [
        pytest.param("/nowhere/at/all", "No such file", id="no such directory"),
        pytest.param("/proc", "run_dir: /proc: ", id="not writable"),
        pytest.param("{long}", "too long for the path of a socket", id="too long"),
    ],
)
def test_run_directory_is_refused(tmp_path, parent, complaint):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    with pytest.raises(StartupError, match=complaint):
        RunDirectory(parent.format(long=long))

    assert list(long.iterdir()) == []


def test_taken_port_is_named():
    with bind_tcp("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(StartupError, match=f"^port {port} is in use$"):
            bind_tcp("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "complaint"),
    [
        pytest.param("no such host", "'no such host' is not an address", id="no name"),
        pytest.param("x" * 70, "x' is not an address: not a valid", id="no name can be so long"),
        pytest.param("192.0.2.1", "'192.0.2.1' is not an address of this machine", id="not ours"),
    ],
)
def test_host_is_refused(host, complaint):
    with pytest.raises(StartupError, match=complaint):
        bind_tcp(host, 0)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        pytest.param("127.0.0.1", "http://127.0.0.1:", id="IPv4"),
        pytest.param("::1", "http://[::1]:", id="IPv6"),
        pytest.param("0.0.0.0", "http://127.0.0.1:", id="all addresses"),
    ],
)
def test_url(host, shown):
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with bind_tcp(host, 0) as listener:
        assert url_of(listener).startswith(shown)


@pytest.mark.parametrize(
    ("exit_code", "is_oom", "expected"),
    [
        pytest.param(-9, True, "killed, likely out of memory", id="the kernel"),
        pytest.param(-9, False, "killed from outside", id="somebody"),
        pytest.param(-9, None, "killed from outside, or out of memory", id="nobody can tell"),
        pytest.param(-11, False, "Segmentation fault", id="segfault"),
        pytest.param(3, False, "", id="exit code says enough"),
        pytest.param(-200, False, "", id="a signal that does not exist"),
    ],
)
def test_likely_reason(exit_code, is_oom, expected):
    assert likely_reason(exit_code, is_out_of_memory=is_oom) == expected


def test_kernel_counts_its_kills():
    assert oom_kills() is None or oom_kills() >= 0


@pytest.mark.parametrize(
    ("line", "file"),
    [
        pytest.param("0::/pod/c", "sys/fs/cgroup/pod/c/memory.events", id="version 2"),
        pytest.param("0::/pod/c", "sys/fs/cgroup/memory.events", id="only the root is mounted"),
        pytest.param("4:memory:/c", "sys/fs/cgroup/memory/c/memory.oom_control", id="version 1"),
    ],
)
def test_kills_of_our_control_group_are_counted(tmp_path, line, file):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{line}\n")
    assert cgroups.oom_kills(tmp_path) is None
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("low 0\noom_kill 2\n")

    assert cgroups.oom_kills(tmp_path) == 2


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "HF_ENDPOINT",
            "PYTHONSECRET",
            "LC_SECRET",
            "_",
            "",
        ),
        *("CUDA_TOKEN", "CUDASECRET", "NVIDIA_API_KEY", "XDG_TOKEN", "XDG_RUNTIME_DIR", "path"),
        *("OMP_SECRET", "MKL_LICENSE", "OPENBLAS_KEY", "Path", "LANG2", "HOME_TOKEN"),
    ],
)
def test_only_whole_names_are_let_through(name):
    assert name not in worker_environment({name: "s", "PATH": "/bin"}, 1, {})


def test_what_the_operator_names_is_passed_but_for_our_own_settings():
    ours = {
        "EMB_A": "1",
        "EMB_": "2",
        "XEMB_A": "3",
        "HF_TOKEN": "4",
        "SERVEKIT_PREDICT_TOKEN": "5",
    }
    some = worker_environment(ours, 1, {"EMB_": "own"}, None, ["EMB_*", "HF_TOKEN"])
    every = worker_environment(ours, 1, {}, None, ["*"])

    assert some.keys() & ours.keys() == {"EMB_A", "EMB_", "HF_TOKEN"}
    assert some["EMB_"] == "own"
    assert ours.keys() - every.keys() == {"SERVEKIT_PREDICT_TOKEN"}


def test_what_is_withheld_is_said_by_name_and_never_by_value():
    ours = {"HF_TOKEN": "secret1", "AWS_A": "secret2", "https_proxy": "secret3", "EMB_A": "secret4",
            "SERVEKIT_X": "secret5", "MINE_A": "secret6", "PATH": "/bin", "SHELL": "secret7",
            "DB_PORT_5432_TCP_ADDR": "secret8", "_": "secret9", "DB_SERVICE_HOST": "a",
            "DB_PORT": "secret10", "EMB_PORT": "1"}  # fmt: skip
    found = withheld(ours, ["MINE_*"])
    said = [variables_withheld(names, level) for level, names in found.items()]

    assert found == {
        "info": ["AWS_A", "EMB_A", "EMB_PORT", "HF_TOKEN", "https_proxy"],
        "debug": ["DB_PORT", "DB_PORT_5432_TCP_ADDR", "DB_SERVICE_HOST", "SHELL"],
    }
    assert not any("secret" in notice.text for notice in said)
    assert withheld({"PATH": "/bin"}, []) == {}


@pytest.mark.parametrize("page", ["operating.md"])
def test_the_list_of_variables_is_documented(page):
    text = (DOCS / page).read_text(encoding="utf-8")

    for title, names in KEPT.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {title} |")]
        assert set(re.findall(r"`(\w+)`", line)) == set(names)


@pytest.mark.parametrize(
    ("text", "number", "models", "expected"),
    [
        pytest.param("", 0, 2, "", id="none"),
        pytest.param("nobody", 1, 2, "nobody", id="one for all"),
        pytest.param("1000", 1, 2, "1000", id="one for all, by number"),
        pytest.param("20000-20001", 1, 2, "20001", id="one for each"),
        pytest.param("20000-20001", 2, 3, "is too small for 3 models", id="too few"),
        pytest.param("0-9", 0, 1, "is not a range", id="root"),
        pytest.param("9-3", 0, 1, "is not a range", id="backwards"),
        pytest.param("1-4294967295", 0, 1, "is not a range", id="nobody's number"),
    ],
)
def test_user_of_a_model(text, number, models, expected):
    if expected.startswith("is "):
        with pytest.raises(StartupError, match=expected):
            user_of_model(text, number, models)
    else:
        assert user_of_model(text, number, models) == expected
