# SPDX-License-Identifier: Apache-2.0
"""Requests of a real server are recorded, and replayed against versions that differ or do not."""

import json
import signal
import stat
from collections import Counter

import pytest
from servekit_record.recording import read_calls

from servekit.testing import ServedModel

from .commands import WAIT_S, RecordCommand, run_pytest, servekit

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CALLS = 1000
SERVICE = """
from servekit import InputError, Service

class Score(Service):
    def predict(self, batch):
        return [InputError("negative") if x < 0 else {"score": x / 7 + OFFSET(x)} for x in batch]

def OFFSET(x):
    return CHANGE
"""


def model(directory, change="0"):
    directory.mkdir()
    (directory / "service.py").write_text(SERVICE.replace("CHANGE", change))
    (directory / "model.toml").write_text(
        'name = "score"\nversion = "1.0"\nservice = "service:Score"\n'
    )
    return directory


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    directory = tmp_path_factory.mktemp("served")
    options = {"plugin": "record.allow=true", "front_ends": 2, "run_dir": directory}
    with ServedModel(model(directory / "v1"), **options) as server:
        server.directory = directory
        yield server.wait_ready()


def send(served, count):
    for number in range(count):
        body = b"-1" if number == 13 else str(number).encode()
        served.post(
            "/score/predict", body, headers={"Authorization": "Bearer s3cret", "X-Who": "me"}
        )


@pytest.fixture(scope="module")
def recording(served, tmp_path_factory):
    """A recording of ``CALLS`` requests."""
    path = tmp_path_factory.mktemp("recording") / "calls.rec"
    recorder = RecordCommand(served, path, "--for", "600", "--redact", "X-Who")
    send(served, CALLS)
    assert recorder.stop()["calls"] == CALLS
    return path


def test_a_recording_has_every_call_and_no_secret(recording):
    calls = list(read_calls(recording))

    assert sorted(call.request.text for call in calls) == sorted(
        "-1" if number == 13 else str(number) for number in range(CALLS)
    )
    assert Counter(call.status for call in calls) == {200: CALLS - 1, 422: 1}
    assert {(call.model, call.version, call.method) for call in calls} == {("score", "1.0", "POST")}
    assert stat.S_IMODE(recording.stat().st_mode) == 0o600
    text = recording.read_text()
    assert "s3cret" not in text
    assert '"x-who":' not in text


def test_the_server_keeps_nothing(served, recording):
    assert not [*served.directory.glob("*/recordings/*")]


def test_the_same_version_has_no_differences(served, recording):
    found = servekit("replay", recording, served.url, "--connections", 4, "--json")

    assert found.returncode == 0, found.stdout + found.stderr
    report = json.loads(found.stdout)
    assert (report["calls"], report["different"]) == (CALLS, 0)
    assert 0 < report["recorded_s"]["median"] < 1
    assert 0 < report["replayed_s"]["median"] < 1


def test_one_difference_in_a_thousand_is_found(recording, tmp_path):
    changed = model(tmp_path / "v2", change="1e-4 if x == 417 else 0")
    found = servekit("replay", recording, changed)

    assert found.returncode == 1, found.stdout + found.stderr
    (line,) = [line for line in found.stdout.splitlines() if line.startswith("call ")]
    assert "/score/predict  body.prediction.score: 59.57" in line
    assert "1000 calls, 1 different" in found.stdout
    tolerant = servekit("replay", recording, changed, "--tolerance", "1e-3")
    assert tolerant.returncode == 0, tolerant.stdout + tolerant.stderr


@pytest.mark.parametrize("failed", [0, 1])
def test_a_recording_becomes_a_test(recording, tmp_path, failed):
    one = next(call.request.text for call in read_calls(recording) if call.status == 200)
    change = f"1e-4 if x == {one} else 0" if failed else "0"
    target, path = model(tmp_path / "v2", change=change), tmp_path / "test_calls.py"
    written = servekit("replay", recording, target, "--first", 20, "--pytest", path)
    assert written.returncode == 0, written.stderr

    told = f"{failed} failed, {20 - failed} passed" if failed else "20 passed"
    assert told in run_pytest(path)


def test_a_share_is_recorded_until_the_file_is_full(served, tmp_path):
    recorder = RecordCommand(served, tmp_path / "calls.rec", "--share", "0.5", "--max-size", "20K")
    send(served, 200)
    told = recorder.end()

    assert 0 < told["calls"] < 200
    assert told["bytes"] <= 20 << 10


def test_a_recording_ends_at_sigterm_as_at_ctrl_c(served, tmp_path):
    recorder = RecordCommand(served, tmp_path / "calls.rec", "--for", "600")
    send(served, 3)
    recorder.process.terminate()

    assert recorder.end()["calls"] == 3
    assert not [*served.directory.glob("*/recordings/*")]


def test_a_recording_without_calls_leaves_no_file(served, tmp_path):
    recorder = RecordCommand(served, tmp_path / "calls.rec", "--for", "600")
    recorder.process.terminate()

    assert recorder.end(status=1) == {"calls": 0, "bytes": 0, "file": None}
    assert not (tmp_path / "calls.rec").exists()


def test_a_model_that_is_not_there_is_refused_at_once(served, tmp_path):
    file = tmp_path / "calls.rec"
    found = servekit("record", "-o", file, "--run-dir", served.directory, "--model", "scroe")

    assert found.returncode == 1
    assert "no model 'scroe'; there are: score" in found.stderr
    assert not file.exists()


@pytest.fixture(scope="module")
def by_protocol(tmp_path_factory):
    """A recording of one model of two, asked by the protocol of a plugin and by its own path."""
    pytest.importorskip("servekit_kserve_v1")
    directory = tmp_path_factory.mktemp("protocol")
    options = {"plugin": "record.allow=true", "run_dir": directory}
    models = ("one", "two")
    with ServedModel(
        *(f"{name}={model(directory / name)}" for name in models), **options
    ) as served:
        served.directory = directory
        served.wait_ready()
        recorder = RecordCommand(served, directory / "calls.rec", "--model", "one")
        for path in ("/v1/models/one:predict", "/v1/models/two:predict"):
            assert served.post(path, b'{"instances": [7]}').status == 200
        for name in models:
            served.post(f"/{name}/predict", b"1")
        assert recorder.stop()["calls"] == 2
    return directory / "calls.rec"


def test_calls_by_protocols_of_plugins_have_their_model(by_protocol):
    found = [(call.target, call.model, call.is_native) for call in read_calls(by_protocol)]

    assert found == [("/v1/models/one:predict", "one", False), ("/one/predict", "one", True)]


def test_calls_by_protocols_of_plugins_are_replayed(by_protocol, tmp_path):
    found = servekit("replay", by_protocol, model(tmp_path / "new", "x == 7"), "--json")

    assert found.returncode == 1, found.stderr
    report = json.loads(found.stdout)
    assert [each["target"] for each in report["differences"]] == ["/v1/models/one:predict"]


def test_a_version_is_refused_where_the_path_does_not_name_it(by_protocol):
    found = servekit("replay", by_protocol, "http://127.0.0.1:9", "--version", "2.0")

    assert found.returncode == 3
    assert "--version: /v1/models/one:predict is a path of a plugin's protocol" in found.stderr


def test_one_recording_at_a_time(served, tmp_path):
    recorder = RecordCommand(served, tmp_path / "calls.rec", "--for", "600")
    second = servekit("record", "-o", tmp_path / "2.rec", "--run-dir", served.directory)
    recorder.process.send_signal(signal.SIGINT)
    recorder.process.communicate(timeout=WAIT_S)

    assert second.returncode == 1
    assert "answers 409: another recording is running, for " in second.stderr


def test_recordings_are_off(tmp_path):
    with ServedModel(model(tmp_path / "v1"), run_dir=tmp_path) as server:
        server.wait_ready()
        found = servekit("record", "-o", tmp_path / "calls.rec", "--run-dir", tmp_path)

    assert found.returncode == 3
    assert "start it with --plugin record.allow=true" in found.stderr
    assert not (tmp_path / "calls.rec").exists()
