# SPDX-License-Identifier: Apache-2.0
"""The runtime and the examples for KServe keep its schemas, and fit the server and each other."""

import jsonschema
import pytest
import yaml
from servekit_kubernetes.kserve import kserve_files

from .samples import plan
from .schemas import hold, misspelled

FILES = kserve_files(plan(workers=0, namespace="default"))
RESOURCES = {
    f"{path.removeprefix('kserve/')} {each['kind']}": each for path, text in FILES.items()
    for each in yaml.safe_load_all(text)
}  # fmt: skip
RUNTIME = RESOURCES["runtime.yaml ClusterServingRuntime"]
CONTAINER = RUNTIME["spec"]["containers"][0]
SERVICES = {name: each for name, each in RESOURCES.items() if each["kind"] == "InferenceService"}


@pytest.mark.parametrize("name", RESOURCES)
def test_every_resource_of_kserve_keeps_its_schema(name):
    hold(RESOURCES[name])


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("runtime.yaml ClusterServingRuntime", ("spec", "supportedModelFormats", 0, "autoSelect")),
        ("runtime.yaml ClusterServingRuntime", ("spec", "containers", 0, "readinessProbe")),
        ("examples/pvc.yaml InferenceService", ("spec", "predictor", "model", "storageUri")),
        ("examples/canary.yaml InferenceService", ("spec", "predictor", "canaryTrafficPercent")),
        ("examples/keda.yaml InferenceService", ("spec", "predictor", "autoScaling", "metrics")),
        ("examples/s3.yaml Secret", ("stringData",)),
    ],
)
def test_a_misspelled_key_of_kserve_is_found(name, keys):
    hold(RESOURCES[name])

    with pytest.raises(jsonschema.ValidationError):
        hold(misspelled(RESOURCES[name], *keys))


def test_the_runtime_serves_the_mounted_model_under_the_name_of_its_service():
    env = {each["name"]: each["value"] for each in CONTAINER["env"]}

    assert CONTAINER["args"] == ["start", "{{.Name}}=/mnt/models"]
    assert env["SERVEKIT_PLUGIN_OIP_GRPC"] == "0.0.0.0:9000"
    assert RUNTIME["spec"]["protocolVersions"] == ["v2", "grpc-v2"]
    assert float(env["SERVEKIT_DRAIN_DELAY"]) + float(env["SERVEKIT_GRACE"]) < 30
    assert CONTAINER["readinessProbe"]["httpGet"] == {"path": "/ping", "port": 8080}
    assert CONTAINER["livenessProbe"]["httpGet"] == {"path": "/ping/live", "port": 8080}


def test_a_runtime_has_the_name_that_was_given_and_the_examples_use_it():
    files = kserve_files(plan(workers=0, name="servekit-gpu", gpus=1, namespace="ml"))
    resources = [each for text in files.values() for each in yaml.safe_load_all(text)]
    runtime, *examples = resources

    assert runtime["metadata"] == {"name": "servekit-gpu"}
    assert runtime["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert {each["metadata"]["namespace"] for each in examples} == {"ml"}
    assert {
        each["spec"]["predictor"]["model"]["runtime"]
        for each in examples
        if each["kind"] == "InferenceService"
    } == {"servekit-gpu"}


def test_only_archives_of_servekit_find_the_runtime_by_themselves():
    formats = RUNTIME["spec"]["supportedModelFormats"]

    assert {each["name"] for each in formats} == {
        "servekit", "sklearn", "onnx", "pytorch", "mlflow", "xgboost", "lightgbm", "torchserve",
    }  # fmt: skip
    assert {each["name"] for each in formats if each["autoSelect"]} == {"servekit"}


@pytest.mark.parametrize("name", SERVICES)
def test_an_example_names_the_runtime_and_a_format_and_protocol_that_it_has(name):
    model = SERVICES[name]["spec"]["predictor"]["model"]
    formats = {each["name"] for each in RUNTIME["spec"]["supportedModelFormats"]}

    assert model["runtime"] == RUNTIME["metadata"]["name"]
    assert model["modelFormat"]["name"] in formats
    assert model["protocolVersion"] in RUNTIME["spec"]["protocolVersions"]
    assert all(port["containerPort"] == 9000 for port in model.get("ports", ()))


def test_examples_bring_the_model_from_each_place():
    uris = {each["spec"]["predictor"]["model"]["storageUri"] for each in SERVICES.values()}

    assert {uri.partition(":")[0] for uri in uris} == {"pvc", "s3", "oci"}
    account = RESOURCES["examples/s3.yaml ServiceAccount"]
    predictor = SERVICES["examples/s3.yaml InferenceService"]["spec"]["predictor"]
    assert predictor["serviceAccountName"] == account["metadata"]["name"]
    assert account["secrets"] == [
        {"name": RESOURCES["examples/s3.yaml Secret"]["metadata"]["name"]}
    ]


def test_examples_of_knative_ask_for_it():
    for name in ("canary", "scale-to-zero"):
        annotations = SERVICES[f"examples/{name}.yaml InferenceService"]["metadata"]["annotations"]
        assert annotations["serving.kserve.io/deploymentMode"] == "Serverless"
    zero = SERVICES["examples/scale-to-zero.yaml InferenceService"]["spec"]["predictor"]
    canary = SERVICES["examples/canary.yaml InferenceService"]["spec"]["predictor"]

    assert zero["minReplicas"] == 0
    assert canary["canaryTrafficPercent"] == 10
