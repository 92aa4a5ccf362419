# SPDX-License-Identifier: Apache-2.0
"""From a request that kills its worker to a test that fails until the service is mended."""

import json
import os
import stat
import subprocess
import sys

import pytest

from tests.waiting import wait_until

from .conftest import WAIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
BROKEN = """
import os
from servekit import Service

class S(Service):
    def predict(self, batch):
        if any(each == {"secret": "hunter2\u00f6"} or each == b"\\x00bin" for each in batch):
            os._exit(9)
        return [1 for each in batch]
"""
MENDED = BROKEN.replace("os._exit(9)", "pass")
POISON = json.dumps({"secret": "hunter2\u00f6"}).encode()


class Crashed:
    """A server of a broken model, and the command that looks at its crashes."""

    def __init__(self, serve, directory, *flags):
        self.model = directory / "fragile"
        self.model.mkdir()
        (self.model / "model.toml").write_text('name = "fragile"\nservice = "service:S"\n')
        self.mend(BROKEN)
        self.run_dir = directory / "run"
        self.run_dir.mkdir()
        self.server = serve("--models", self.model, f"--run-dir={self.run_dir}", *flags)

    def mend(self, text):
        (self.model / "service.py").write_text(text)

    def crash(self, body=POISON, content_type="application/json"):
        wait_until(lambda: self.server.get("/ping")[0] == 200, "a worker")
        before = len(self.reports())
        status = self.server.post("/fragile/predict?key=a", body, content_type)[0]
        wait_until(
            lambda: len(self.reports()) > before and self.reports()[-1]["requests"], "a report"
        )
        return status, self.reports()[-1]["number"]

    def reports(self):
        return json.loads(self.command("--json").stdout)

    def command(self, *arguments):
        command = [sys.executable, "-m", "servekit", "crashes", *arguments]
        return subprocess.run(
            [*command, "--run-dir", str(self.run_dir)],
            capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip

    def show(self, number, *flags):
        return self.command("show", str(number), *flags).stdout


@pytest.fixture(scope="module")
def kept(serve, tmp_path_factory):
    return Crashed(serve, tmp_path_factory.mktemp("kept"), "--keep-bodies=64KiB")


@pytest.fixture(scope="module")
def unkept(serve, tmp_path_factory):
    return Crashed(serve, tmp_path_factory.mktemp("unkept"))


def run_test(path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    environment = os.environ | {"COLUMNS": "100"}
    return subprocess.run(
        command, cwd=path.parent, env=environment, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip


def test_the_copied_test_fails_until_the_service_is_mended(kept, tmp_path):
    status, number = kept.crash()
    file = tmp_path / f"test_crash_{number}.py"
    file.write_text(kept.show(number, "--pytest"))
    before = run_test(file)
    kept.mend(MENDED)
    after = run_test(file)
    kept.mend(BROKEN)

    assert status == 503
    assert before.returncode == 1, before.stdout
    assert "assert 503 < 500" in before.stdout
    assert after.returncode == 0, after.stdout


# the model of a server is given up after five crashes in a minute: no more than four here


def test_the_copied_command_kills_a_worker_again(kept):
    number = kept.crash(b"\x00bin", "application/octet-stream")[1]
    count = len(kept.reports())
    command = kept.show(number, "--curl")
    answer = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=WAIT_S, check=True
    )

    assert '"status":503' in answer.stdout
    wait_until(lambda: len(kept.reports()) > count, "another crash")


def test_bodies_are_where_they_are_asked_for_and_nowhere_else(kept):
    number = kept.crash()[1]
    (report,) = [each for each in kept.reports() if each["number"] == number]
    path = next(kept.run_dir.glob(f"servekit-run-*/crashes/{number:06d}.json"))

    assert report["requests"][0]["body"] is None
    assert json.loads(kept.show(number, "--json"))["requests"][0]["body"]
    assert "hunter2" not in kept.server.output
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_without_the_setting_no_input_is_kept(unkept):
    number = unkept.crash()[1]
    (request,) = json.loads(unkept.show(number, "--json"))["requests"]
    texts = unkept.show(number, "--curl"), unkept.show(number, "--pytest")

    assert request["body"] is None
    assert (request["method"], request["target"]) == ("POST", "/fragile/predict")
    assert request["headers"] == {"content-type": "application/json"}
    assert request["body_bytes"] == len(POISON)
    assert all("--keep-bodies" in text for text in texts)


def test_what_cannot_be_shown_is_said(unkept):
    number = unkept.crash()[1]
    missing = unkept.command("show", "99")
    other = unkept.command("show", str(number), "--curl", "--request", "nobody")
    incomplete = unkept.command("--curl")

    assert (missing.returncode, "there is no crash report 99" in missing.stderr) == (3, True)
    assert "has no request nobody" in other.stderr
    assert "need: show N" in incomplete.stderr
    assert f"report    {number}" in unkept.show(number)
