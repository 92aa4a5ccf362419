# SPDX-License-Identifier: Apache-2.0
"""Versions of a model side by side in a server: paths, shares, sticky headers, and a mirror."""

import json
import os
import re
import signal
from collections import Counter
from contextlib import closing

import pytest
from servekit_archiver import build_archive

from tests.waiting import wait_for_value

from .test_management import front_ends
from .test_swaps import Clients, Management

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """
from servekit import Service, endpoint

class S(Service):
    def load(self, context):
        self.version = context.version

    def predict(self, batch):
        if -1 in batch:
            raise RuntimeError("a bug")
        return [self.version if item else "same" for item in batch]

    @endpoint()
    def double(self, batch):
        return [f"{self.version}: {2 * item}" for item in batch]
"""


@pytest.fixture(scope="module")
def served(serve, tmp_path_factory):
    """Serve two versions, and return the server and its management."""
    run_dir, directory = tmp_path_factory.mktemp("r"), tmp_path_factory.mktemp("archives")
    paths = []
    for version in ("1", "2"):
        source = directory / version
        source.mkdir()
        (source / "service.py").write_text(SERVICE)
        lines = 'name = "m"', 'service = "service:S"', f'version = "{version}"'
        (source / "model.toml").write_text("\n".join(lines))
        paths.append(build_archive(source, directory / f"{version}.mar").path)
    server = serve("--models", f"m={paths[0]}", "--run-dir", run_dir, "--front-ends", "2")
    (path,) = run_dir.glob("servekit-run-*/manage.sock")
    management = Management(path)
    row = management.do("POST", "/models", source=str(paths[1]), model="m")
    assert row["state"] == "done", row
    yield server, management
    management.close()


def ask(server, path="/m/predict", value=1, **headers):
    """Return status, ``X-Model-Version``, and the prediction or what is wrong."""
    fields = {name.replace("_", "-"): each for name, each in headers.items()}
    status, said, body = server.post(path, json.dumps(value).encode(), **fields)
    answer = json.loads(body)
    return status, said.get("X-Model-Version"), answer.get("prediction", answer.get("detail"))


def rules(management, **changed):
    row = management.do("PUT", "/models/m", **changed)
    assert row["state"] == "done", row


@pytest.fixture
def plain(served):
    """Return the server and its management; afterwards there are no rules."""
    yield served
    rules(served[1], aliases={"canary": ""}, weights={}, sticky="", mirror="")


PATHS = {
    "/m/predict": (200, "1", "1"),
    "/m/versions/1/predict": (200, "1", "1"),
    "/m/versions/2/predict": (200, "2", "2"),
    "/m/versions/canary/predict": (200, "2", "2"),
    "/m/versions/canary/double": (200, "2", "2: 2"),
    "/m/versions/3/predict": (404, None, "m has no version '3'; it has 1, 2, canary (2)"),
    "/m/versions/2/other": (404, None, "m 2 has no '/other'"),
}


def test_each_version_answers_at_its_own_paths(plain):
    server, management = plain
    rules(management, aliases={"canary": "2"})

    assert {path: ask(server, path) for path in PATHS} == PATHS


def test_errors_have_the_version_too(plain):
    server, _ = plain

    assert ask(server, "/m/versions/2/predict", value=-1)[:2] == (500, "2")


def test_shares_by_weight_and_by_a_header(plain):
    server, management = plain
    rules(management, weights={"1": 75, "2": 25})
    found = Counter(ask(server) for _ in range(200))
    rules(management, weights={"1": 50, "2": 50}, sticky="x-user")

    def asked():
        return {str(user): ask(server, x_user=str(user)) for user in range(30)}

    users = asked()

    assert found.keys() == {(200, "1", "1"), (200, "2", "2")}
    assert abs(found[200, "2", "2"] - 50) <= 2  # each of two front-ends is one off at most
    assert {version for _, version, _ in users.values()} == {"1", "2"}
    assert all(ask(server, x_user=user) == answer for user, answer in users.items())


def test_rules_are_in_force_when_every_front_end_answers_by_them(plain):
    server, management = plain
    behind = front_ends(server)[-1]
    os.kill(behind, signal.SIGSTOP)
    try:
        with closing(Management(management.path, wait_s=0.5)) as asked:  # by the other front-end
            row = asked.do("PUT", "/models/m", aliases={"canary": "2"})
    finally:
        os.kill(behind, signal.SIGCONT)
    ended = management.do("GET", f"/operations/{row['id']}")

    assert (row["state"], ended["state"]) == ("running", "done")


def test_a_mirror_is_compared_and_counted_and_nobody_sees_it(plain):
    server, management = plain
    rules(management, mirror="2")
    given = {ask(server, value=value) for value in (0, 0, 0, 1, 1)}

    def compared():
        text = server.get("/metrics")[1].decode()
        series = r'servekit_mirrored_total{model="m",result="(\w+)",version="2"} ([\d.]+)'
        return {result: float(count) for result, count in re.findall(series, text)}

    assert given == {(200, "1", "same"), (200, "1", "1")}
    expected = {"equal": 3, "other_body": 2, "other_status": 0, "dropped": 0}
    wait_for_value(compared, expected, "copies by what came of them")


def test_versions_are_counted_and_described_apart(plain):
    server, _ = plain
    ask(server, "/m/versions/2/predict")
    text, paths = (server.get(path)[1] for path in ("/metrics", "/openapi.json"))

    for version in ("1", "2"):
        assert f'servekit_requests_total{{model="m",status="200",version="{version}"}}' in (
            text.decode()
        )
    assert "/m/versions/{version}/double" in json.loads(paths)["paths"]


STAGES = """
from servekit import Service

class First(Service):
    def load(self, context):
        self.version = context.version

    def predict(self, batch):
        return [[self.version, item] for item in batch]

class Second(First):
    def predict(self, batch):
        return [[self.version if self.version == first else "mixed", n] for first, n in batch]
"""
STAGED = """
name = "digits"
version = "{version}"
pipeline = ["first", "second"]
[stages.first]
service = "service:First"
[stages.second]
service = "service:Second"
"""


def test_swaps_of_a_model_with_stages_cost_no_request_and_never_mix_versions(
    serve, tmp_path_factory
):
    run_dir, directory = tmp_path_factory.mktemp("r"), tmp_path_factory.mktemp("staged")

    def build(version):
        source = directory / version
        source.mkdir()
        (source / "service.py").write_text(STAGES)
        (source / "model.toml").write_text(STAGED.format(version=version))
        return str(build_archive(source, directory / f"{version}.mar").path)

    server = serve("--models", f"digits={build('1')}", "--run-dir", run_dir, "--front-ends", "2")
    (path,) = run_dir.glob("servekit-run-*/manage.sock")
    management = Management(path)
    with Clients(server) as load:
        for version in ("2", "3", "4"):
            row = management.do(
                *("POST", "/models/digits/swap"),
                source=build(version),
                shift=[50],
                step_s=0.3,
                watch_s=0.3,
                keep_s=0.0,
            )
            assert (row["state"], row["version"]) == ("done", version), row
    management.close()

    assert load.wrong == []
    assert {status for _, status, _ in load.seen} == {200}
    assert {version for _, _, version in load.seen} == {"1", "2", "3", "4"}
