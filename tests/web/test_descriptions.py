# SPDX-License-Identifier: Apache-2.0
"""Both descriptions are valid by their standards, for whatever a model takes and gives."""

import enum
import json
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV31SpecValidator
from servekit_jobs.description import jobs_fragment

from servekit import errors
from servekit.extension import Routes
from servekit.ipc.table import Interface, RouteRow, StepRow, Table, TrafficRow
from tests.services.pairs import INPUTS
from tests.worker.batches import echo, loaded, service_of
from tests.worker.worker_process import item

from .fakes import FakeServer, model_row

SIGNATURE = {
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [-1, 4]},
        {"name": "mask", "dtype": "bool", "shape": [4]},
    ],
    "outputs": [{"name": "label", "dtype": "int64", "shape": []}],
}
IMAGE = {"inputs": [{"name": "image", "dtype": "uint8", "shape": [8, 8]}]}
JSON = "application/json"
STATUSES = (400, 401, 403, 404, 405, 406, 408, 413, 414, 415, 417, 422, 429, 431)
STATUSES += (500, 501, 503, 504, 505, 507)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(msgspec.Struct, tag=True):
    value: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5


class Branch(msgspec.Struct, tag=True):
    left: "Leaf | Branch"
    right: "Leaf | Branch | None" = None


class Options(TypedDict, total=False):
    colour: Colour
    mode: Literal["fast", "exact"]


class Everything(msgspec.Struct, forbid_unknown_fields=True):
    tree: Branch
    options: Options
    pair: tuple[int, str]
    names: Annotated[list[str], msgspec.Meta(min_length=1)]
    anything: Any = None
    either: int | str | None = None
    by_name: dict[str, Leaf] = {}
    limit: float = float("nan")


def typed(input_type: Any, output_type: Any) -> Interface:
    """Return the interface of a service with annotated types, as a worker makes it."""
    (schemas, parts) = msgspec.json.schema_components(
        [input_type, output_type], ref_template="#/$defs/{name}"
    )
    return Interface(
        input_schema=schemas[0],
        output_schema=schemas[1],
        schema_definitions=parts,
        consumes=[JSON, "application/msgpack", "multipart/form-data"],
        produces=[JSON, "application/msgpack"],
    )


MODELS = {
    "an untyped model": model_row("echo", Interface(consumes=[JSON], produces=[JSON])),
    "a model that has not been loaded yet": model_row("new"),
    "a signature known from the manifest alone": model_row(
        "early", manifest={"signature": SIGNATURE}
    ),
    "a signature": model_row(
        "tensors",
        Interface(
            signature=SIGNATURE,
            consumes=[JSON, "application/msgpack", "multipart/form-data"],
            produces=[JSON, "application/x-npy"],
        ),
        manifest={"examples": [{"input": {"x": [[1, 2, 3, 4]], "mask": [True] * 4}, "output": 7}]},
    ),
    "an image": model_row(
        "eyes",
        Interface(
            signature=IMAGE,  # behind a preprocess of the service's own: the schema is open
            consumes=[JSON, "application/octet-stream", "image/*", "multipart/form-data"],
            produces=[JSON, "image/png"],
        ),
        manifest={"examples": [{"input_file": "three.png", "content_type": "image/png"}]},
    ),
    "types of every kind": model_row("typed", typed(Everything, list[Leaf])),
    "builtins": model_row("plain", typed(dict[str, int], float | None)),
    "text and bytes": model_row(
        "raw", Interface(consumes=["text/plain", "audio/*"], produces=["application/octet-stream"])
    ),
    "a name with dots and dashes": model_row("a.b-c_d", typed(Leaf, Branch)),
    "a signature that makes no sense": model_row("odd", manifest={"signature": {"inputs": 7}}),
    "a reference that leads nowhere": model_row(
        "lost", Interface(input_schema={"$ref": "#/$defs/Gone"})
    ),
    "a model that looks at headers": model_row(
        "asks",
        Interface(
            consumes=[JSON],
            produces=[JSON],
            request_headers=["accept-language", "authorization"],
            request_query=["lang"],
        ),
    ),
    "a model that streams": model_row(
        "flows",
        Interface(
            output_schema={"type": "array", "items": {"type": "string"}},
            consumes=[JSON],
            produces=[JSON, "text/event-stream", "application/jsonl"],
        ),
    ),
    "several instances": model_row(
        "many",
        typed(Leaf, Branch),
        routes=[RouteRow("/v1/many", [StepRow(stage="predict")], instances=True)],
    ),
    "a model that cannot be loaded": model_row("broken", replicas=[], reason="no such file"),
}
ONE_EACH = [pytest.param([row], id=name) for name, row in MODELS.items()]
SERVERS = [*ONE_EACH, pytest.param([], id="no model"), pytest.param([*MODELS.values()], id="all")]


def described(rows, path="/openapi.json", **how):
    document = json.loads(FakeServer(*rows).client().get(path, **how).data)
    return document["description"] if path == "/api-description" else document


@pytest.mark.parametrize("rows", SERVERS)
def test_the_api_description_is_valid_swagger_2(rows):
    OpenAPIV2SpecValidator(described(rows, "/api-description")).validate()


@pytest.mark.parametrize("rows", SERVERS)
def test_openapi_json_is_valid_openapi_3_1(rows):
    OpenAPIV31SpecValidator(described(rows)).validate()


@pytest.mark.parametrize("path", ["/openapi.json", "/api-description"])
@pytest.mark.parametrize("rows", SERVERS)
def test_every_reference_leads_somewhere(rows, path):
    document = described(rows, path)

    for reference in set(_references(document)):
        target = document
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]


@pytest.mark.parametrize("path", ["/openapi.json", "/api-description"])
def test_operations_have_names_of_their_own(path):
    paths = described(list(MODELS.values()), path)["paths"]
    names = [operation["operationId"] for item in paths.values() for operation in item.values()]

    assert len(set(names)) == len(names)


def test_a_model_with_a_signature_takes_a_form_as_mxnet_model_server_clients_expect():
    post = described([MODELS["a signature"]], "/api-description")["paths"]["/tensors/predict"][
        "post"
    ]

    assert post["operationId"] == "tensors_predict"
    assert post["consumes"] == ["multipart/form-data"]
    assert [
        (field["in"], field["name"], field["required"], field["type"])
        for field in post["parameters"]
    ] == [("formData", "x", True, "string"), ("formData", "mask", True, "string")]
    assert "[4]" in post["parameters"][1]["description"]


def test_a_model_whose_examples_are_images_takes_a_file():
    paths = described([MODELS["an image"]], "/api-description")["paths"]

    assert paths["/eyes/predict"]["post"]["parameters"][0]["type"] == "file"


def test_a_model_without_a_signature_takes_a_body():
    post = described([MODELS["builtins"]], "/api-description")["paths"]["/plain/predict"]["post"]

    assert post["consumes"] == [JSON, "application/msgpack"]
    assert post["parameters"][0]["in"] == "body"
    assert post["parameters"][0]["schema"]["additionalProperties"] == {"type": "integer"}


def test_the_routes_that_mxnet_model_server_described_are_described():
    paths = described([], "/api-description")["paths"]

    assert {path: paths[path]["get"]["operationId"] for path in paths} == {
        "/ping": "ping",
        "/api-description": "api-description",
        "/": "root",
    }


@pytest.mark.parametrize(
    ("host", "described_as"),
    [
        ("localhost:8080", "localhost:8080"),
        ("models.example", "models.example"),
        ("[::1]:8080", None),
        ("evil/path", None),
        ("a b", None),
        ("{x}", None),
        ("a@b", None),
        ("", None),
    ],
)
def test_the_host_is_the_one_the_client_asked_if_swagger_can_say_it(host, described_as):
    document = described([], "/api-description", headers={"Host": host})

    assert document.get("host") == described_as


def test_a_document_for_one_host_does_not_leak_into_that_for_another():
    client = FakeServer().client()
    client.get("/api-description", headers={"Host": "one:1"})

    assert client.get("/api-description", headers={"Host": "two:2"}).json["description"][
        "host"
    ] == ("two:2")


def test_two_models_with_types_of_one_name_keep_them_apart():
    rows = [model_row("a", typed(Leaf, int)), model_row("b", typed(Branch, int))]
    schemas = described(rows)["components"]["schemas"]

    assert {"a.Leaf", "b.Branch", "b.Leaf"} <= set(schemas)


@pytest.mark.parametrize("page", ["/openapi.json", "/api-description"])
def test_versions_are_a_parameter_of_the_path_however_many_there_are(page):
    rows = [model_row(name, MODELS["a signature"].interface) for name in ("one", "many")]
    for row in rows:
        row.routes = [RouteRow("/v1/" + row.name, [StepRow(stage="predict", target="size")])]
    rows[1].versions = [model_row("many", version=str(number)) for number in range(50)]
    document = described(rows, page)
    versioned = {path for path in document["paths"] if "version" in path}
    post = document["paths"]["/many/versions/{version}/predict"]["post"]

    assert versioned == {f"/many/versions/{{version}}{path}" for path in ("/predict", "/v1/many")}
    assert post["operationId"] == "many_predict_of_version"
    (parameter,) = [each for each in post["parameters"] if each.get("in") == "path"]
    assert (parameter["name"], parameter["required"]) == ("version", True)
    plain = document["paths"]["/many/predict"]["post"]
    assert post["responses"].keys() == plain["responses"].keys()


@pytest.mark.parametrize(
    ("page", "validator"),
    [("/openapi.json", OpenAPIV31SpecValidator), ("/api-description", OpenAPIV2SpecValidator)],
)
def test_descriptions_with_versions_are_valid(page, validator):
    row = model_row("a", MODELS["a signature"].interface)
    row.traffic = TrafficRow(aliases={"stable": "1.0"})

    validator(described([row], page)).validate()


def test_the_bodies_of_a_prediction_are_all_the_model_takes_and_gives():
    post = described([MODELS["an image"]])["paths"]["/eyes/predict"]["post"]

    assert [*post["requestBody"]["content"]] == [
        *("image/png", JSON, "application/octet-stream", "image/*", "multipart/form-data")
    ]
    assert [*post["responses"]["200"]["content"]] == [JSON, "image/png"]


def test_examples_of_the_manifest_are_shown():
    post = described([MODELS["a signature"]])["paths"]["/tensors/predict"]["post"]
    asked = post["requestBody"]["content"]
    answered = post["responses"]["200"]["content"]

    assert asked[JSON]["examples"]["example-1"]["value"]["x"] == [[1, 2, 3, 4]]
    assert answered[JSON]["examples"]["example-1"]["value"] == {"prediction": 7}
    assert asked["multipart/form-data"]["schema"]["properties"]["x"]["examples"] == ["[[1,2,3,4]]"]


def test_an_example_too_long_to_read_is_left_out():
    row = model_row("wide", manifest={"examples": [{"input": [0] * 100_000}]})

    assert len(json.dumps(described([row]))) < 20_000


def errors_described():
    """Return the errors of a prediction by the first digit of their status."""
    document = described([MODELS["builtins"]])
    responses = document["paths"]["/plain/predict"]["post"]["responses"]
    return {
        status: document["components"]["responses"][each["$ref"].rpartition("/")[2]]
        for status, each in responses.items()
        if "$ref" in each
    }


def test_errors_are_described_as_problems_in_two_groups():
    kinds = {status: [*each["content"]] for status, each in errors_described().items()}

    assert kinds == {"4XX": ["application/problem+json"], "5XX": ["application/problem+json"]}


def test_every_status_is_told_with_the_titles_of_its_errors():
    groups = errors_described()
    kinds = [getattr(errors, name) for name in errors.__all__ if name[0].isupper()]
    found = [kind for kind in kinds if not issubclass(kind, errors.StartupError)]

    assert {kind.status for kind in found} == set(STATUSES)
    for kind in found:
        lines = groups[f"{kind.status // 100}XX"]["description"].splitlines()
        titles = next(line for line in lines if line.startswith(f"* {kind.status}: "))
        assert kind.title in titles


@pytest.mark.parametrize("header", ["WWW-Authenticate", "Allow", "Accept-Encoding", "Retry-After"])
def test_errors_that_tell_more_have_their_header_described(header):
    assert header in errors_described()["4XX"]["headers"]


def json_of(row, **how):
    (path, *_) = [path for path in described([row])["paths"] if path.endswith("/predict")]
    content = described([row], **how)["paths"][path]["post"]["requestBody"]["content"]
    return next(iter(content[JSON]["examples"].values()))["value"]


def row_of(input_type):
    """Return the row of a service whose inputs are of *input_type*, as its worker describes it."""

    def predict(self, batch: list[input_type]):
        return batch

    return model_row("made", loaded(service_of(predict)).interface)


@pytest.mark.parametrize(
    "label", [label for label in INPUTS if label not in ("any", "none", "moment")]
)
def test_an_input_that_the_page_shows_is_one_that_the_model_takes(label):
    given, _ = INPUTS[label]

    def predict(self, batch: list[given]):
        return [0] * len(batch)

    shown = json_of(row_of(given))
    (answer,) = loaded(service_of(predict)).predictor.answer([item(shown)]).answers

    assert not answer[0], (shown, answer)


def test_an_array_that_the_page_shows_is_zeros_and_no_bounds():
    signature = {
        "inputs": [
            {"name": "pixels", "dtype": "float32", "shape": [-1, 2]},
            {"name": "ids", "dtype": "int64", "shape": [2]},
        ],
        "outputs": [],
    }
    interface = loaded(service_of(echo, signature)).interface
    early = model_row("early", manifest={"signature": signature})

    assert json_of(model_row("signed", interface)) == {"pixels": [[0, 0]], "ids": [0, 0]}
    assert json_of(early) == {"pixels": [[0, 0]], "ids": [0, 0]}


def test_a_packaged_example_is_the_one_that_is_shown():
    interface = row_of(int).interface
    row = model_row("made", interface, manifest={"examples": [{"input": 7}]})

    assert json_of(row) == 7


@pytest.mark.parametrize("path", ["/openapi.json", "/api-description"])
def test_what_a_service_looks_at_are_parameters(path):
    post = described([MODELS["a model that looks at headers"]], path)["paths"]["/asks/predict"][
        "post"
    ]
    found = [(each.get("in"), each.get("name")) for each in post["parameters"]]

    assert found[-2:] == [("header", "accept-language"), ("query", "lang")]


def test_streams_are_described():
    post = described([MODELS["a model that streams"]])["paths"]["/flows/predict"]["post"]
    content = post["responses"]["200"]["content"]

    assert "An event for each output" in content["text/event-stream"]["schema"]["description"]
    assert "A line for each output" in content["application/jsonl"]["schema"]["description"]
    assert content[JSON]["schema"]["properties"]["prediction"]["type"] == "array"


@pytest.mark.parametrize("path", ["/openapi.json", "/api-description"])
def test_instances_and_what_becomes_of_each_are_described(path):
    post = described([MODELS["several instances"]], path)["paths"]["/v1/many"]["post"]
    answers = {status: post["responses"][status] for status in ("200", "207")}
    given = post["parameters"][0] if path == "/api-description" else post["requestBody"]["content"]

    assert "'instances': {'type': 'array', 'items': {'$ref'" in str(given)
    for answer in answers.values():
        schema = answer["schema"] if "schema" in answer else answer["content"][JSON]["schema"]
        assert "predictions" in schema["properties"]
        if path == "/openapi.json":
            each = schema["properties"]["predictions"]["items"]["anyOf"]
            assert [list(kind["properties"]) for kind in each] == [["prediction"], ["error"]]


def test_a_new_table_is_described_anew():
    server = FakeServer()
    client = server.client()
    before = client.get("/openapi.json").json["paths"]
    server.table = Table([model_row("late")])

    assert "/late/predict" not in before
    assert "/late/predict" in client.get("/openapi.json").json["paths"]


def _references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    for inner in node if isinstance(node, list) else ():
        yield from _references(inner)


@pytest.mark.parametrize("needs_token", [True, False])
def test_jobs_are_described_where_there_are_some(needs_token):
    server = FakeServer(model_row(interface=Interface(signature=SIGNATURE)))
    assert "/jobs/{id}" not in json.loads(server.client().get("/openapi.json").data)["paths"]
    server.needs_token = needs_token
    client = server.client(Routes(openapi=jobs_fragment))
    described = json.loads(client.get("/openapi.json").data)
    predict = described["paths"]["/digits/predict"]["post"]

    OpenAPIV31SpecValidator(described).validate()
    assert {"$ref": "#/components/parameters/Prefer"} in predict["parameters"]
    assert "Location" in predict["responses"]["202"]["headers"]
    for path in ("/jobs/{id}", "/jobs/{id}/result"):
        assert ("security" in described["paths"][path]["get"]) is needs_token


@pytest.mark.parametrize("path", ["/openapi.json", "/api-description"])
@pytest.mark.parametrize("needs_token", [True, False])
def test_a_token_is_described_where_one_is_needed(path, needs_token):
    server = FakeServer(MODELS["builtins"])
    server.needs_token = needs_token
    found = json.loads(server.client().get(path).data)
    document = found.get("description", found)
    schemes = document.get("securityDefinitions") or document.get("components", {}).get(
        "securitySchemes", {}
    )
    validator = OpenAPIV31SpecValidator if path == "/openapi.json" else OpenAPIV2SpecValidator

    validator(document).validate()
    post = document["paths"]["/plain/predict"]["post"]
    assert post.get("security") == ([{"token": []}] if needs_token else None)
    assert list(schemes) == ["token"] * needs_token
