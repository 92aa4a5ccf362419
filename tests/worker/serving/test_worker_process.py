# SPDX-License-Identifier: Apache-2.0
"""A real worker process, from ``Launch`` to its end."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servekit.ipc.batches import Hello, Ping, Pong, Predict
from servekit.ipc.channel import ChannelClosed
from servekit.ipc.control import BootFailed
from tests.worker.worker_process import PATIENCE_S, item

OK = "application/json"


def test_a_worker_boots_answers_a_batch_and_leaves_when_told(start):
    worker = start("echo:Sum").boot()
    channel = worker.connect()

    assert channel.hello == Hello(7)
    assert channel.predict(item({"x": [1, 2]})) == [(OK, b'{"prediction":3}')]
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        ("boots:LoadRaises", "ZeroDivisionError: division by zero (boots.py:21)"),
        ("boots:LoadExits", "SystemExit: cannot go on (boots.py:29)"),
        ("boots:LoadInterrupts", "KeyboardInterrupt (boots.py:34)"),
        ("boots:WarmUpRaises", "ValueError: cold and two lines (boots.py:42)"),
        ("boots:NoPredict", "NoPredict has no predict()"),
        ("boots:NotAService", "service: boots:NotAService: <class 'int'> is not a subclass"),
        ("boots:Absent", "service: boots:Absent: Absent is not there"),
        ("coroutines:HalfAsync", "HalfAsync.predict is async, so other has to be async too (co"),
        ("coroutines:AsyncLoad", "AsyncLoad.load: write a plain def, as predict is (coroutines.py"),
        ("coroutines:AsyncStandIn", "AsyncStandIn.stand_in: write a plain def (coroutines.py"),
        ("boots:Unresolvable", "Unresolvable.predict: cannot resolve its annotations (NameError"),
        ("boots:BothDeclared", "predict: annotated as a list though there is a signature"),
        ("boots:BadSignature", "signature: x: unknown dtype 'complex64'"),
        ("absent:Service", "service: no module 'absent' in the model"),
        ("os:path", "service: 'os' is not a module of the model but another one"),
        ("colorsys:X", "service: 'colorsys' is not a module of the model"),
        ("no-such-service", "service: no plugin offers 'no-such-service'; known: "),
    ],
)
def test_a_failed_boot_says_what_and_where_in_one_line(start, service, reason):
    worker = start(service)
    said = worker.receive()

    assert isinstance(said, BootFailed)
    assert said.reason.startswith(reason)
    assert "\n" not in said.reason
    assert worker.wait() == 3


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("a = 1\nprint(", "SyntaxError: '(' was never closed (package/broken.py:2)"),
        ("import absent", "ModuleNotFoundError: No module named 'absent' (package/broken.py:1)"),
        ("import os\nos._exit", "service: package.broken:X: X is not there"),
    ],
)
def test_a_module_that_does_not_import_is_named(start, tmp_path, source, reason):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "broken.py").write_text(source)

    assert start("package.broken:X", directory=tmp_path).receive() == BootFailed(reason)


def test_a_failed_load_leaves_its_traceback_in_the_log(start):
    worker = start("boots:LoadRaises")
    worker.wait()

    assert "line 21, in load\n    return 1 / 0" in worker.log.read_text()


@pytest.mark.parametrize(
    ("source", "first"),
    [
        ("x = [\n", '  File "{path}", line 1\n    x = ['),
        (
            "import nowhere\n",
            'Traceback (most recent call last):\n  File "{path}", line 1, in <mod',
        ),
    ],
)
def test_a_traceback_begins_with_the_authors_code(start, tmp_path, source, first):
    path = tmp_path / "broken.py"
    path.write_text(source)
    worker = start("broken:X", directory=tmp_path)
    worker.wait()

    assert worker.log.read_text().startswith(first.format(path=path))


def test_examples_are_run_before_the_worker_is_ready(start):
    examples = [{"input": {"x": [1, 2]}, "output": 3}, {"input": {"x": [1]}, "output": 2.5}]
    worker = start("echo:Sum", examples=examples)

    reason = "example 2: output: 1, expected 2.5 (tolerance 1e-06)"
    assert worker.receive() == BootFailed(reason)


def test_a_service_sees_its_context_and_is_closed(start):
    worker = start("boots:Closes", options={"a": 1}, version="2.0").boot()

    assert worker.stop() == 0
    assert worker.log.read_text() == "load test 2.0 0 {'a': 1}\nclosed\n"


@pytest.mark.parametrize("count", [1, 2, 8])
def test_one_bad_item_leaves_its_neighbours_alone(start, count):
    channel = start("faults:SlotErrors").boot().connect()
    good = [item(i) for i in range(count)]
    answers = channel.predict(item(b"{"), *good, item(-1), item(1, accept="text/plain"))

    assert [name for name, _ in answers] == [
        "BodyMalformed",
        *[OK] * count,
        "InputError",
        "NotAcceptable",
    ]
    assert [body for _, body in answers[1:-2]] == [b'{"prediction":%d}' % i for i in range(count)]


FAILURES = {
    "KeyboardInterrupt": "PredictFailed",
    "GeneratorExit": "PredictFailed",
    "RecursionError": "PredictFailed",
    "recurse": "PredictFailed",
    "MemoryError": "OutOfMemory",
    "ZeroDivisionError": "PredictFailed",
    "Unshowable": "PredictFailed",
    "InputError": "InputError",
    "ClientError": "ClientError",
    "OwnInputError": "InputError",
    "none": "WrongBatchLength",
    "nothing": "WrongBatchLength",
    "too many": "WrongBatchLength",
    "a mapping": "WrongBatchLength",
    "a text": "WrongBatchLength",
    "a tuple": "WrongBatchLength",
    "a set": "WrongBatchLength",
    "generator": "WrongBatchLength",
    "object": "ResultNotEncodable",
    "nan": "ResultNotEncodable",
    "inf": "ResultNotEncodable",
    "cyclic": "ResultNotEncodable",
    "deep": "ResultNotEncodable",
    "large": "ResultNotEncodable",
    "1 GB": "ResultNotEncodable",
}


def test_whatever_predict_does_is_an_answer_and_the_worker_stays(start):
    worker = start("faults:Fault").boot()
    channel = worker.connect()

    assert {key: channel.predict(item(key))[0][0] for key in FAILURES} == FAILURES
    assert channel.predict(item(1)) == [(OK, b'{"prediction":1}')]
    assert channel.predict(item("surrogate")) == [(OK, rb'{"prediction":"\ud800"}')]
    assert worker.process.poll() is None


def test_a_failed_predict_fails_the_whole_batch_and_is_logged_once(start):
    worker = start("faults:Fault").boot()
    ids = [f"id-{i}" for i in range(3)]
    batch = [item("ZeroDivisionError", request_id=request_id) for request_id in ids]

    assert worker.connect().predict(*batch) == [("PredictFailed", b'{"detail":"","errors":[]}')] * 3
    log = worker.log.read_text()
    assert log.count("Traceback") == 1
    assert "failed for 3 request(s): id-0, id-1, id-2" in log


@pytest.mark.parametrize("does", ["SystemExit", "exit"])
def test_a_service_that_exits_is_answered_and_the_worker_leaves(start, does):
    worker = start("faults:Fault").boot()

    assert [name for name, _ in worker.connect().predict(item(does), item(1))] == [
        "PredictFailed"
    ] * 2
    assert worker.wait() == 1


@pytest.mark.parametrize(
    "does", ["fork", "flood", "pool", "sigterm", "sigint", "stdout None", "thread", "chdir"]
)
def test_a_service_may_do_odd_things_and_is_answered_once(start, does):
    worker = start("faults:Fault").boot()
    channel = worker.connect()

    assert channel.predict(item(does))[0][0] == OK
    assert channel.predict(item(1)) == [(OK, b'{"prediction":1}')]
    assert worker.stop() == 0


def test_programs_that_the_service_starts_do_not_get_the_sockets(start):
    ((_, listing),) = start("faults:Fault").boot().connect().predict(item("inherit"))

    assert b"/proc" in listing
    assert b"socket:" not in listing


def test_steps_that_the_service_overrides_are_called_for_each_item(start):
    worker = start("faults:Steps").boot()
    items = [item(body, "text/X; a=b") for body in (b"hi", b"refuse", b"fail late", b"\xff")]
    answers = worker.connect().predict(*items)

    assert answers[0] == (OK, b'{"prediction":{"answer":["text/x","r1","hi"]}}')
    assert [name for name, _ in answers[1:]] == ["InputError", "PredictFailed", "PredictFailed"]
    assert (
        answers[1][1] == b'{"detail":"refused","errors":[{"field":"body","message":"is refuse"}]}'
    )


def test_several_front_ends_come_and_go(start):
    worker = start("echo:Echo").boot()
    first, second = worker.connect(), worker.connect()
    first.predict(item(1))
    first.sock.close()

    assert second.predict(item(2)) == [(OK, b'{"prediction":2}')]
    assert worker.connect().predict(item(3)) == [(OK, b'{"prediction":3}')]


def test_a_broken_frame_closes_its_channel_only(start):
    worker = start("echo:Echo").boot()
    broken, good = worker.connect(), worker.connect()
    broken.sock.sendall(b"\x03\0\0\0\xc1\xc1\xc1")

    with pytest.raises(ChannelClosed):
        broken.receive()
    assert good.predict(item(1)) == [(OK, b'{"prediction":1}')]


def test_batches_sent_at_once_are_answered_in_order(start):
    channel = start("echo:Echo").boot().connect()
    for number in (1, 2):
        channel.send(Predict(number, [item(number)]))

    assert [message.batch for message in channel.receive_many(2)] == [1, 2]


def test_a_ping_asks_the_service(start):
    well, sick = (start(name).boot().connect() for name in ("echo:Echo", "faults:SickPing"))
    for channel in (well, sick):
        channel.send(Ping())

    assert [channel.receive() for channel in (well, sick)] == [Pong(""), Pong("RuntimeError")]


def test_the_end_of_the_control_socket_ends_the_worker(start):
    worker = start("echo:Echo").boot()
    worker.control.shutdown(socket.SHUT_RDWR)

    assert worker.wait() == 0


def test_signals_are_left_to_the_supervisor(start):
    worker = start("echo:Echo").boot()
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(worker.process.pid, number)

    assert worker.connect().predict(item(1)) == [(OK, b'{"prediction":1}')]


def test_the_worker_dies_with_its_parent(tmp_path):
    script = (
        "import sys, pathlib, time; from tests.worker.worker_process import Worker\n"
        "worker = Worker(pathlib.Path(sys.argv[1]), 'echo:Echo').boot()\n"
        "print(worker.process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE)
    with parent:
        worker = int(parent.stdout.readline())
        parent.kill()

    deadline = time.monotonic() + PATIENCE_S
    while not _is_gone(worker):
        assert time.monotonic() < deadline, f"{worker} outlived its parent"
        time.sleep(0.01)


def _is_gone(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # ProcessLookupError, if it goes while we read
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"
