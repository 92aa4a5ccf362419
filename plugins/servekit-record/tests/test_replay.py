# SPDX-License-Identifier: Apache-2.0
"""Requests of a real server are recorded, and replayed against versions that differ or do not."""

import json
import signal
import stat
import subprocess
import sys
from collections import Counter

import pytest
from servekit_record.recording import read_calls

from servekit.testing import ServedModel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WAIT_S = 60.0
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


def servekit(*arguments, **options):
    command = [sys.executable, "-m", "servekit", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_S, check=False, **options
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    directory = tmp_path_factory.mktemp("served")
    options = {"plugin": "record.allow=true", "front_ends": 2, "run_dir": directory}
    with ServedModel(model(directory / "v1"), **options) as server:
        server.directory = directory
        yield server.wait_ready()


class CallRecorder:
    """``servekit record``, which has begun."""

    def __init__(self, served, path, *flags):
        command = [sys.executable, "-m", "servekit", "record", "-o", str(path), "--json",
                   "--run-dir", str(served.directory), *flags]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr.readline().startswith("recording for ")

    def stop(self):
        """End it as Ctrl-C does, and return what it prints."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self, status=0):
        output, error = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == status, error
        return json.loads(output)


HEADERS = {"Authorization": "Bearer s3cret", "X-Who": "me"}


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
    recorder = CallRecorder(served, path, "--for", "600", "--redact", "X-Who")
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
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path]
    ran = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=False
    )

    told = f"{failed} failed, {20 - failed} passed" if failed else "20 passed"
    assert told in ran.stdout, ran.stdout + ran.stderr


def test_a_share_is_recorded_until_the_file_is_full(served, tmp_path):
    recorder = CallRecorder(served, tmp_path / "calls.rec", "--share", "0.5", "--max-size", "20K")
    send(served, 200)
    told = recorder.end()

    assert 0 < told["calls"] < 200
    assert told["bytes"] <= 20 << 10


def test_calls_of_another_model_are_not_recorded(served, tmp_path):
    recorder = CallRecorder(served, tmp_path / "calls.rec", "--model", "other", "--for", "1")
    send(served, 20)

    assert recorder.end(status=1)["calls"] == 0


def test_one_recording_at_a_time(served, tmp_path):
    recorder = CallRecorder(served, tmp_path / "calls.rec", "--for", "600")
    second = servekit("record", "-o", tmp_path / "2.rec", "--run-dir", served.directory)
    recorder.process.send_signal(signal.SIGINT)
    recorder.process.communicate(timeout=WAIT_S)

    assert second.returncode == 1
    assert "answers 409: it ends in " in second.stderr


def test_recordings_are_off(tmp_path):
    with ServedModel(model(tmp_path / "v1"), run_dir=tmp_path) as server:
        server.wait_ready()
        found = servekit("record", "-o", tmp_path / "calls.rec", "--run-dir", tmp_path)

    assert found.returncode == 3
    assert "start it with --plugin record.allow=true" in found.stderr
    assert not (tmp_path / "calls.rec").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["nothing.rec", "http://127.0.0.1:9"], "No such file", id="no recording"),
        pytest.param(["FILE", "nothing.mar"], "no such archive or model directory", id="no model"),
        pytest.param(
            *(["FILE", "http://127.0.0.1:9"], "127.0.0.1:9: Connection refused"), id="no server"
        ),
        pytest.param(["FILE", "ftp://a"], "is not http://HOST:PORT", id="no URL"),
    ],
)
def test_what_cannot_be_replayed(recording, arguments, told):
    file, target = arguments
    found = servekit("replay", recording if file == "FILE" else file, target)

    assert found.returncode == 3
    assert told in found.stderr
