# SPDX-License-Identifier: Apache-2.0
"""``servekit.serve``: in the background and blocking, with paths and with classes."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import servekit
from servekit.errors import StartupError
from servekit.service.base import Service
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WAIT_S = 60.0
DOUBLES = """
from servekit import Service
from {package}neighbour import FACTOR

class DoubleIt(Service):
    def predict(self, batch):
        return [FACTOR * value for value in batch]
"""


class Twice(Service):
    """Doubles numbers; workers import it from this file."""

    def predict(self, batch: list[float]) -> list[float]:
        """Return each number twice."""
        return [2 * value for value in batch]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "neighbour.py").write_text("FACTOR = 2\n")
    (tmp_path / "service.py").write_text(DOUBLES.replace("{package}", ""))
    return tmp_path / "service.py"


def predict(url: str, name: str, value: object) -> object:
    request = urllib.request.Request(
        f"{url}/{name}/predict", json.dumps(value).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return json.loads(answer.read())["prediction"]


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: not Path(f"/proc/{pid}/exe").exists(), f"{pid} lives on")


@pytest.mark.parametrize(
    ("models", "settings", "complaint"),
    [
        pytest.param({}, {}, "models: none given", id="no model"),
        pytest.param("x.mar", {}, "x.mar: no such file", id="no such archive"),
        pytest.param("", {}, "models: '': the path is empty", id="an empty path"),
        pytest.param("x.py:X", {}, "x.py:X: no such file", id="no such file of a class"),
        pytest.param(__file__, {}, "name its class, too", id="a file without its class"),
        pytest.param(Twice, {"prot": 1}, "'prot', did you mean 'port'", id="unknown setting"),
        pytest.param(Twice, {"port": -1}, "port: -1 is below 0", id="a value out of range"),
        pytest.param(Twice, {"set": ["Twice.replcas=2"]}, "'replicas'?", id="unknown key"),
        pytest.param({"a": Twice}, {"set": ["b.replicas=2"]}, "called 'b'", id="no such model"),
        pytest.param(Twice, {"log_format": "text"}, "log_format: ", id="a log for people"),
        pytest.param(dict, {}, "dict: workers cannot import", id="a class that is built in"),
    ],
)
def test_what_is_refused_before_a_process_starts(models, settings, complaint):
    with pytest.raises(StartupError, match=complaint):
        servekit.serve(models, block=False, **settings)


def test_a_class_inside_a_function_is_refused():
    class Inner(Service):
        pass

    with pytest.raises(StartupError, match=r"Inner: workers can only import a class at the top"):
        servekit.serve(Inner, block=False)


@pytest.mark.e2e
def test_classes_files_and_directories_are_served_until_the_end_of_the_with(file):
    (file.parent / "model.toml").write_text('name = "whole"\nservice = "service:DoubleIt"\n')
    models = {"a": Twice, "b": f"{file}:DoubleIt", "c": file.parent}
    with servekit.serve(models, block=False, port=0, replicas=None) as server:
        answers = [predict(server.url, name, 4) for name in models]
        pid = server.pid
    wait_until_gone(pid)

    assert answers == [8, 8, 8]


@pytest.mark.e2e
def test_a_class_gives_its_name_and_a_module_of_a_package_can_import_its_neighbours(tmp_path):
    package = tmp_path / "models"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "neighbour.py").write_text("FACTOR = 2\n")
    (package / "service.py").write_text(DOUBLES.replace("{package}", "models."))
    with servekit.serve(package / "service.py:DoubleIt", block=False, port=0) as server:
        answer = predict(server.url, "double-it", 4)

    assert answer == 8


@pytest.mark.e2e
def test_a_model_that_cannot_be_loaded_is_an_error_with_the_log(tmp_path):
    (tmp_path / "broken.py").write_text("raise RuntimeError('no weights')\n")

    with pytest.raises(StartupError, match=r"no weights(.*\n)*no model could be loaded"):
        servekit.serve(f"{tmp_path}/broken.py:Broken", block=False, port=0)


@pytest.mark.e2e
def test_a_server_outlives_the_thread_that_started_it_but_not_its_process(file):
    code = (
        "import servekit, sys, threading\n"
        "made = []\n"
        "start = lambda: made.append(servekit.serve(sys.argv[1], block=False, port=0))\n"
        "thread = threading.Thread(target=start); thread.start(); thread.join()\n"
        "print(made[0].pid, made[0].url, flush=True); sys.stdin.read(1)\n"
        "import os; os.kill(os.getpid(), 9)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, f"{file}:DoubleIt"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    pid, url = process.stdout.readline().split()
    answer = predict(url, "double-it", 4)
    process.communicate("x", timeout=WAIT_S)
    wait_until_gone(int(pid))

    assert answer == 8


SCRIPT = """
import servekit
from neighbour import FACTOR

class DoubleIt(servekit.Service):
    def predict(self, batch):
        return [FACTOR * value for value in batch]

{guard}servekit.serve({"doubles": DoubleIt}, port=0)
print("ended", flush=True)
"""


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_script_serves_its_own_class_until_a_signal(file, number):
    script = file.with_name("script.py")
    script.write_text(SCRIPT.replace("{guard}", "if __name__ == '__main__': "))
    process = subprocess.Popen(
        [sys.executable, "script.py"], cwd=file.parent, stdout=subprocess.PIPE, text=True
    )
    url = process.stdout.readline().split()[-1]
    answer = predict(url, "doubles", 4)
    process.send_signal(number)
    output, _ = process.communicate(timeout=WAIT_S)

    assert (answer, process.returncode, output) == (8, 0, "ended\n")


@pytest.mark.e2e
def test_a_script_without_a_guard_is_told_so(file):
    script = file.with_name("script.py")
    script.write_text(SCRIPT.replace("{guard}", ""))
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=file.parent, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip

    assert 'call it below `if __name__ == "__main__":`' in done.stderr
    assert done.returncode == 1
