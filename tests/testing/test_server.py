# SPDX-License-Identifier: Apache-2.0
"""A served model can be disturbed, and is always ended."""

import subprocess
import sys
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from servekit.testing import ServedModel

SERVICE = "from servekit import Service\n\nclass Echo(Service):\n    {predict}\n"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def model(tmp_path):
    def write(predict="def predict(self, batch):\n        return batch\n"):
        (tmp_path / "service.py").write_text(SERVICE.replace("{predict}", predict))
        (tmp_path / "model.toml").write_text('name = "echo"\nservice = "service:Echo"\n')
        return tmp_path

    return write


def test_it_answers_and_ends(model):
    with ServedModel(model(), max_body="1KiB", strict=True) as served:
        answers = served.wait_ready().predict([1]), served.post("/echo/predict", b"x" * 2000)
        status = served.stop()

    assert [answer.status for answer in answers] == [200, 413]
    assert (answers[0].prediction, status) == ([1], 0)


def test_a_killed_worker_is_noticed_and_replaced(model, serve_model):
    served = serve_model(model())
    killed = served.worker_pid()
    served.kill_worker()
    served.wait_ready()

    assert served.log.find("worker_exited")[0]["exit_code"] == -9
    assert served.worker_pid() != killed
    assert served.predict("x").prediction == "x"


def test_a_paused_worker_is_slow_and_goes_on(model, serve_model):
    served = serve_model(model(), predict_timeout=0.3)
    with served.paused_worker():
        late = served.predict("x")

    assert late.status == 504


def test_a_model_that_cannot_be_loaded_fails_the_test_with_its_reason(model):
    directory = model("raise RuntimeError('no weights')")
    with (
        ServedModel(directory) as served,
        pytest.raises(AssertionError, match=r"the server has ended\n(.*\n)*.*no weights"),
    ):
        served.wait_ready()


def test_a_test_that_is_killed_leaves_no_server(model):
    code = (
        "import os, sys; from servekit.testing import ServedModel\n"
        "served = ServedModel(sys.argv[1]).wait_ready()\n"
        "print(served.process.pid, served.worker_pid(), flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, model()], capture_output=True, text=True, check=False
    )
    pids = killed.stdout.split()
    deadline, pause = monotonic() + 20, Event()
    while any(Path(f"/proc/{pid}/exe").exists() for pid in pids):
        assert monotonic() < deadline, f"{pids} live on"
        pause.wait(0.02)

    assert (killed.returncode, len(pids)) == (-9, 2)


def test_what_is_printed_is_in_the_log(model, serve_model):
    predict = "def predict(self, batch):\n        print('seen', batch)\n        return batch\n"
    served = serve_model(model(predict))
    served.predict("x")

    assert served.log.wait_for("output", message="seen ['x']")["subject"] == "echo/0"
