# SPDX-License-Identifier: Apache-2.0
"""The supervisor over real processes: start, crash, crash loop, hang, end."""

import os
import resource
import signal
import socket
import subprocess
import sys

import pytest

from servekit.ipc.control import Hung
from servekit.ipc.operations import Operate, ReloadModels
from tests.processes import is_alive

from .conftest import front_end_of, wait_until


def states(table):
    return [replica.state for model in table.models for replica in model.replicas]


def is_serving(table):
    return bool(states(table)) and set(states(table)) == {"serving"}


# ---------------------------------------------------------------- start

ONE_TURN = """
import sys
from unittest.mock import Mock
from servekit.settings import Settings
from servekit.supervisor.server.supervisor import Supervisor
said = []
supervisor = Supervisor(Settings(models=(sys.argv[1],), port=0), Mock())
supervisor._control._send_table = lambda: said.append("table")
supervisor._advance = lambda: (said.append("serving"), supervisor._loop.stop())
supervisor._loop.call_later(0, lambda: supervisor._front_ends_ready(1))
supervisor._loop.call_later(0, supervisor.changed)
supervisor._loop.run()
supervisor._clean_up()
print(*said)
"""


def test_nobody_reads_serving_before_the_front_ends_can_know_of_it(model):
    done = subprocess.run(
        [sys.executable, "-c", ONE_TURN, model()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split()[:2] == ["table", "serving"]


def test_model_is_launched_and_published(start, model):
    server = start(model(batching={"max_batch_size": 7, "max_delay_ms": 5}), "--queue", "9")
    server.wait_for("serving")
    with server.control() as control:
        (row,) = control.wait_for(is_serving).models

    assert (row.name, row.version, row.capacity) == ("digits", "1.0", 9)
    assert (row.max_batch_size, row.max_delay_s, row.predict_timeout_s) == (7, 0.005, 30)
    assert row.manifest["service"] == "service:S"
    assert "files" not in row.manifest
    assert row.interface is not None


@pytest.mark.slow
def test_setting_overrides_the_manifest(start, model):
    directory = model(worker={"replicas": 1, "predict_timeout_s": 5})
    server = start(f"two={directory}", "--replicas", "2", "--predict-timeout", "3")
    server.wait_for("serving")
    with server.control() as control:
        (row,) = control.wait_for(is_serving).models

    assert (row.name, row.predict_timeout_s) == ("two", 3)
    assert [replica.index for replica in row.replicas] == [0, 1]


def test_serving_names_models_and_url(start, model):
    server = start(model("a"), model("b"))
    event = server.wait_for("serving")

    assert event["models"] == ["a/1.0", "b/1.0"]
    with socket.create_connection(("127.0.0.1", int(event["url"].rpartition(":")[2]))):
        pass


@pytest.mark.slow
def test_broken_model_does_not_keep_the_others_from_serving(start, model):
    server = start(model("good"), model("bad", act="refuse"))
    event = server.wait_for("serving")
    with server.control() as control:
        rows = control.wait_for(lambda table: "backoff" in states(table)).models

    assert event["models"] == ["good/1.0"]
    assert rows[1].replicas[0].reason == "RuntimeError: no weights (service.py:3)"


def test_model_that_cannot_be_prepared_is_a_row_with_its_reason(start, model):
    broken = model("broken")
    (broken / "model.toml").write_text('name = "broken"\nservice = "service:S"\nsize = 3\n')
    server = start(model("good"), broken)
    server.wait_for("serving")
    with server.control() as control:
        rows = control.wait_for(lambda table: table.models[1].reason != "loading").models

    assert "size: unknown key" in rows[1].reason
    assert "size: unknown key" in server.wait_for("model_failed", subject="broken")["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("acts", "flags", "reason"),
    [
        pytest.param(["refuse"], [], "(RuntimeError: no weights (serv", id="every model fails"),
        pytest.param(["crash", "refuse"], [], "exited with 7", id="every worker crashes"),
        pytest.param(["", "refuse"], ["--strict"], "(RuntimeError", id="strict: one fails"),
        pytest.param(["hang"], [], "not ready after 1 s", id="load hangs"),
    ],
)
def test_start_fails(start, model, acts, flags, reason):
    tables = {"hang": {"worker": {"load_timeout_s": 1}}}
    models = [model(f"bad{n}", act=act, **tables.get(act, {})) for n, act in enumerate(acts)]
    server = start(*models, *flags)

    assert server.wait_exit() == 3
    assert len([message for message in server.messages() if reason in message]) == 1
    assert server.events[-1]["event"] == "failed"
    assert server.messages()[-1].endswith(("no model could be loaded", "bad1 could not be loaded"))


@pytest.mark.slow
def test_strict_start_names_every_model_that_failed(start, model):
    """One is refused at once, one crashes, and one hangs until its time is up."""
    directories = [
        model("good"),
        model("odd"),
        model("bad", act="crash"),
        model("slow", act="hang", worker={"load_timeout_s": 1}),
    ]
    (directories[1] / "model.toml").write_text('name = "odd"\nservice = "service:S"\nsize = 3\n')
    server = start(*directories, "--strict")

    assert server.wait_exit() == 3
    assert server.messages()[-1] == "strict: odd, bad, slow could not be loaded"


@pytest.mark.slow
def test_line_that_says_serving_names_the_models_that_failed(start, model):
    server = start(model("good"), model("bad", act="refuse"), model("worse", act="crash"))
    event = server.wait_for("serving")

    assert (event["models"], event["failed"]) == (["good/1.0"], ["bad", "worse"])
    assert event["message"].endswith("; bad, worse could not be loaded")


@pytest.mark.slow
def test_last_words_of_a_worker_are_shown(start, model):
    server = start(model(act="crash"))

    assert server.wait_for("output", message="no weights")["subject"] == "digits/0"


@pytest.mark.slow
def test_two_models_of_one_name_are_refused(start, model, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    first = model("Digits")
    (other / "model.toml").write_text('name = "digits"\nservice = "service:S"\n')
    (other / "service.py").write_bytes((first / "service.py").read_bytes())
    server = start(first, other)

    assert server.wait_exit() == 3
    assert any("are the same name; use NAME=PATH" in message for message in server.messages())


@pytest.mark.slow
def test_front_end_that_cannot_start_ends_the_server(start, model):
    server = start(model(), FRONT_END_ACT="broken")

    assert server.wait_exit() == 3
    assert server.messages()[-1] == "front-end: no gevent here"


# ---------------------------------------------------------------- faults


@pytest.mark.slow
def test_killed_worker_is_replaced_at_once(start, model):
    server = start(model())
    pid = server.wait_for("worker_ready")["pid"]
    server.wait_for("serving")
    os.kill(pid, signal.SIGKILL)
    gone = server.wait_for("worker_exited")
    again = server.wait_for("worker_ready", generation=2)

    assert (gone["exit_code"], gone["restart_s"]) == (-9, 0.0)
    assert again["pid"] != pid


@pytest.mark.slow
def test_crash_of_a_worker_that_served_restarts_then_waits(start, model):
    server = start(model(act="crash later"))
    waits = [server.wait_for("worker_exited", generation=n)["restart_s"] for n in (1, 2, 3)]

    assert waits[0] == 0
    assert 0.5 <= waits[1] <= 0.55
    assert 1 <= waits[2] <= 1.1


@pytest.mark.slow
def test_worker_that_closed_its_control_channel_is_replaced(start, model):
    server = start(model(act="deaf"))

    assert server.wait_for("worker_exited")["reason"] == "its service closed the control channel"


def hung(control, reason):
    """Return the report that the first worker hangs."""
    (replica,) = control.wait_for(is_serving).models[0].replicas
    return Hung(replica.address, 0, 1, reason)


@pytest.mark.slow
def test_hung_worker_is_killed_and_replaced(start, model):
    server = start(model())
    server.wait_for("serving")
    with server.control() as control:
        control.send(hung(control, "predict took longer than 1 s"))
        table = control.wait_for(
            lambda t: is_serving(t) and t.models[0].replicas[0].generation == 2
        )

    assert is_serving(table)
    assert server.wait_for("worker_exited")["reason"] == "predict took longer than 1 s"


@pytest.mark.slow
def test_stopped_worker_can_be_hung_too(start, model):
    server = start(model())
    pid = server.wait_for("worker_ready")["pid"]
    os.kill(pid, signal.SIGSTOP)
    with server.control() as control:
        control.send(hung(control, "did not answer for 5 s"))
        server.wait_for("worker_ready", generation=2)

    assert not is_alive(pid)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_worker_lost_while_the_server_starts_is_replaced(start, model, tmp_path, number):
    """The model has loaded: the start waits for the next worker instead of failing."""
    gate = tmp_path / "gate"
    server = start(model(), FRONT_END_GATE=str(gate))
    os.kill(server.wait_for("worker_ready")["pid"], number)
    server.wait_for("worker_ready", generation=2)
    gate.touch()

    assert server.wait_for("serving")["failed"] == []


@pytest.mark.slow
def test_worker_that_ends_again_and_again_fails_the_start(start, model, tmp_path):
    server = start(model(act="crash later"), FRONT_END_GATE=str(tmp_path / "never"))

    assert server.wait_exit() == 3
    assert server.messages()[-1] == "no model could be loaded"
    assert len([e for e in server.events if e["event"] == "worker_exited"]) == 5


def test_a_model_that_serves_can_be_changed_while_another_front_end_starts(start, model, tmp_path):
    server = start(model(), FRONT_END_GATE=str(tmp_path / "never"))
    server.wait_for("worker_ready")
    with server.control() as control:
        control.wait_for(lambda table: table.models[0].replicas[0].is_serving)
        control.send(Operate("o1", ReloadModels(model="digits")))
        ended = control.wait_for(lambda t: t.operations and t.operations[0].state != "running")

    assert (ended.operations[0].state, ended.operations[0].error) == ("done", "")


def test_old_report_does_not_kill_the_replacement(start, model):
    server = start(model())
    server.wait_for("serving")
    with server.control() as control:
        this = hung(control, "this one")
        control.send(Hung(this.address, 0, 7, "another life"))
        control.send(Hung("/nowhere", 0, 1, "another model"))
        control.send(this)
        server.wait_for("worker_exited")
        server.wait_for("worker_ready", generation=2)

    assert len([e for e in server.events if e["event"] == "worker_exited"]) == 1


@pytest.mark.slow
def test_worker_that_cannot_be_started_is_tried_again(start, model):
    server = start(model())
    worker = server.wait_for("worker_ready")["pid"]
    server.wait_for("serving")
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    os.kill(worker, signal.SIGKILL)
    gone = server.wait_for("worker_exited", generation=2)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    assert gone["reason"] == "cannot be started: Too many open files"
    assert 0.5 <= gone["restart_s"] <= 1.1  # or who killed the first could not be found out
    server.wait_for("worker_ready", generation=3)
    assert not [event for event in server.events if event["event"] == "internal_error"]


def test_killed_front_end_is_replaced_at_once(start, model):
    server = start(model())
    server.wait_for("serving")
    with server.control() as control:
        control.wait_for(is_serving)
        os.kill(front_end_of(server), signal.SIGKILL)
        gone = server.wait_for("front_end_exited")

    assert (gone["exit_code"], gone["restart_s"]) == (-9, 0.0)
    wait_until(lambda: front_end_of(server), "no new front-end")


def test_peer_that_speaks_nonsense_is_dropped_alone(start, model):
    server = start(model())
    server.wait_for("serving")
    with server.control() as rude, server.control() as control:
        rude.socket.sendall(b"\x00\x00\x00\x00garbage")
        control.send(hung(control, "still heard"))
        server.wait_for("worker_exited", reason="still heard")

    assert server.process.poll() is None


# ---------------------------------------------------------------- end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_all_and_leaves_nothing(start, model, run_dir, processes, number):
    server = start(model(), "--replicas", "2")
    server.wait_for("serving")
    children = wait_until(  # the guard is one; that which has prepared the model may still end
        lambda: len(found := processes(server.process.pid)) == 4 and found, "other than 4 processes"
    )
    server.signal(number)

    assert server.wait_exit() == 0
    assert server.messages()[-1] == "stopping"
    assert not any(map(is_alive, children))
    assert list(run_dir.iterdir()) == []


def test_drain_is_published_before_the_front_end_stops(start, model):
    server = start(model(), "--drain-delay", "600")
    server.wait_for("serving")
    with server.control() as control:
        server.signal(signal.SIGTERM)
        table = control.wait_for(lambda table: table.is_draining)

        assert is_serving(table)
        assert server.process.poll() is None
    server.signal(signal.SIGTERM)
    assert server.wait_exit() == 0


def test_worker_that_loads_does_not_delay_the_end(start, model):
    server = start(model(act="hang"))
    server.wait_for("progress", message="loading")
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0


def test_ctrl_c_before_it_serves_is_told_by_the_status(start, model, run_dir):
    server = start(model(act="hang"))
    server.wait_for("progress", message="loading")
    server.signal(signal.SIGINT)

    assert server.wait_exit() == 130
    assert server.messages()[-1] == "stopping"
    assert list(run_dir.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "front_end"),
    [
        pytest.param("stubborn", "", id="stubborn worker"),
        pytest.param("", "stubborn", id="stubborn front-end"),
        pytest.param("stubborn", "stubborn", id="stubborn both"),
    ],
)
def test_second_signal_is_quick(start, model, act, front_end):
    server = start(model(act=act), FRONT_END_ACT=front_end)
    server.wait_for("serving")
    server.signal(signal.SIGTERM)
    server.wait_for("stopping")
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0


@pytest.mark.slow
def test_sigquit_is_quick_at_once(start, model):
    server = start(model(act="stubborn"), FRONT_END_ACT="stubborn")
    server.wait_for("serving")
    server.signal(signal.SIGQUIT)

    assert server.wait_exit() == 0


@pytest.mark.slow
def test_stubborn_worker_is_killed_when_the_grace_is_over(start, model):
    server = start(model(act="stubborn"), "--grace", "0.5")
    server.wait_for("serving")
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0


def test_stop_during_backoff_ends_at_once(start, model):
    server = start(model("good"), model("bad", act="refuse"))
    server.wait_for("serving")
    server.wait_for("worker_exited", model="bad", generation=3)
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0


def test_killed_supervisor_takes_everything_along(start, model, processes, run_dir):
    server = start(model(), "--replicas", "2")
    url = server.wait_for("serving")["url"]
    children = processes(server.process.pid)
    server.process.kill()
    wait_until(lambda: not any(map(is_alive, children)), "a child lives on")

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
    second = start(model("next"))
    second.wait_for("serving")
    assert len(list(run_dir.iterdir())) == 1
