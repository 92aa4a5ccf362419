# SPDX-License-Identifier: Apache-2.0
"""boto3, the client of SageMaker's users, through a stand-in for the runtime of SageMaker."""

import io
import json

import numpy as np
import pytest

from .conftest import write_model
from .runtime import Runtime

boto3 = pytest.importorskip("boto3")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def runtimes():
    """Make clients, whose runtimes end with the module."""
    made = []

    def client(container, models=None):
        made.append(Runtime(container, models))
        return boto3.client(
            "sagemaker-runtime",
            region_name="eu-central-1",
            endpoint_url=made[-1].url,
            aws_access_key_id="id",
            aws_secret_access_key="key",
        )

    yield client
    for each in made:
        each.stop()


@pytest.fixture(scope="module")
def echo(start, runtimes, tmp_path_factory):
    base = tmp_path_factory.mktemp("ml")
    write_model(base / "model")
    return runtimes(start(base).wait_ready())


def invoke(client, body, content_type="application/json", **more):
    return client.invoke_endpoint(
        EndpointName="endpoint", Body=body, ContentType=content_type, **more
    )


def test_json(echo):
    answer = invoke(echo, b'{"a": [1, 2]}')

    assert answer["ContentType"] == "application/json"
    assert json.load(answer["Body"]) == {"a": [1, 2]}


def test_attributes_go_both_ways(echo):
    answer = invoke(echo, b'"attributes"', CustomAttributes="tenant=7", InferenceId="i-1")

    assert answer["CustomAttributes"] == "seen"
    assert json.load(answer["Body"]) == "tenant=7"


def test_arrays(start, runtimes, tmp_path):
    write_model(tmp_path / "model", "Sum")
    client, file = runtimes(start(tmp_path).wait_ready()), io.BytesIO()
    np.save(file, np.array([1, 2, 3], np.float32))
    kind = "application/x-npy"
    answer = invoke(client, file.getvalue(), kind, Accept=kind)

    assert np.load(io.BytesIO(answer["Body"].read())) == 6.0


def test_users_see_the_error_of_the_service(echo):
    with pytest.raises(echo.exceptions.ModelError) as raised:
        invoke(echo, b'"refuse"')

    told = raised.value.response
    assert told["OriginalStatusCode"] == 422
    assert json.loads(told["OriginalMessage"])["error"] == "no"


def test_response_streams(start, runtimes, tmp_path):
    write_model(tmp_path / "model", "Words")
    answer = runtimes(start(tmp_path).wait_ready()).invoke_endpoint_with_response_stream(
        EndpointName="endpoint",
        Body=b'"one two"',
        ContentType="application/json",
        Accept="application/x-ndjson",
    )
    pieces = b"".join(event["PayloadPart"]["Bytes"] for event in answer["Body"])

    assert (answer["ContentType"], pieces) == ("application/x-ndjson", b'"one"\n"two"\n')


def test_target_models_are_loaded_when_they_are_asked_for(start, runtimes, tmp_path):
    models = {
        f"{kind}.tar.gz": write_model(tmp_path / "models" / kind / "model", kind)
        for kind in ("Echo", "Sum")
    }
    container = start(tmp_path, SAGEMAKER_MULTI_MODEL="true").wait_ready()
    client = runtimes(container, models)
    echoed = invoke(client, b"[1]", TargetModel="Echo.tar.gz")
    summed = invoke(client, b'{"x": [1, 2, 3]}', TargetModel="Sum.tar.gz")

    assert json.load(echoed["Body"]) == [1]
    assert json.load(summed["Body"]) == {"y": 6.0}
    assert len(json.loads(container.send("GET", "/models")[2])["models"]) == 2
