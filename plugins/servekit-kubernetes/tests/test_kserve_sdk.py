# SPDX-License-Identifier: Apache-2.0
"""The clients of KServe's SDK, and a server that runs as the runtime of KServe says.

Its container is started as another user on a read-only file system, with the arguments, variables
and ports of the manifest, and the variables of the image.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from servekit_container.dockerfile import dockerfile
from servekit_container.image import ImagePlan
from servekit_kubernetes.kserve import kserve_files

from tests.e2e.pods import Pod, needs_pods

from .samples import plan

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900), needs_pods]
CLIENT = Path(__file__).with_name("kserve_client.py")
ROWS = np.array([[0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0]])
NAME = "iris"


@pytest.fixture(scope="module")
def container():
    """Return the container of the runtime."""
    files = kserve_files(plan(workers=0, namespace="default"))
    (runtime,) = yaml.safe_load_all(files["kserve/runtime.yaml"])
    return runtime["spec"]["containers"][0]


def environment_of(container):
    """Return the variables of the image, and those of the manifest, which win."""
    image = ImagePlan(models=(), tag="a:1", base="b", wheels=(), has_assets_inside=False)
    own = dict(re.findall(r"(SERVEKIT_\w+)=(\S+)", dockerfile(image)))
    return own | {each["name"]: each["value"] for each in container["env"]}


def test_clients_of_the_sdk_are_answered_as_the_runtime_is_started(sdk, container, tmp_path):
    linear = pytest.importorskip("sklearn.linear_model")
    import joblib

    rows = np.random.default_rng(7).random((50, 4))
    model = linear.LinearRegression().fit(rows, rows.sum(axis=1))
    joblib.dump(model, tmp_path / "model.joblib")
    for path in (tmp_path, tmp_path / "model.joblib"):
        path.chmod(0o555)
    environment = environment_of(container)
    probe = container["readinessProbe"]["httpGet"]
    grpc_port = environment["SERVEKIT_PLUGIN_OIP_GRPC"].rpartition(":")[2]
    arguments = [each.replace("{{.Name}}", NAME) for each in container["args"]]
    asked = [probe["path"], str(probe["port"]), grpc_port, NAME]
    with Pod(tmp_path, *arguments, has_network=True, **environment) as pod:
        found = json.loads(pod.run_beside(sdk, str(CLIENT), *asked, timeout_s=180))
        status = pod.stop()

    assert status == 0
    assert_answers(found["REST"], ("JSON", "binary"), model.predict(ROWS))
    assert_answers(found["gRPC"], ("raw", "contents"), model.predict(ROWS))
    assert found["REST"]["no model ready"] is False
    assert [each["name"] for each in found["REST"]["metadata"]["inputs"]] == ["x"]
    assert found["gRPC"]["inputs"] == ["x"]
    assert found["REST"]["server"]["name"] == found["gRPC"]["server"]


def assert_answers(found, kinds, expected):
    assert all(found[each] is True for each in ("live", "ready", "model ready"))
    for kind in kinds:
        assert (found[kind]["model"], found[kind]["id"]) == (NAME, "seven")
        assert found[kind]["values"] == pytest.approx(expected.tolist())
