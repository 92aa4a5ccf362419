# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servekit_archiver import Asset, Batching, FileInfo, Manifest, ManifestError, Tensor

SHA = "0" * 64
INFO = {"size": 1, "sha256": SHA}
FILES = {"s.py": INFO}
STAGE = {"service": "s:A"}
ROUTE = {"steps": ["predict"]}
ASSET = {"url": "https://example.org/w.bin", "sha256": SHA}
MINIMAL = {
    "format": 1,
    "created_by": "me",
    "name": "m",
    "service": "s:S",
    "files": FILES,
}


SMALL = {"batching": {"max_batch_size": 8}}


def colocated(host, *, b=None, key="colocated", **keys):
    """Return the keys of a model whose stage ``a`` runs in the workers of *host*."""
    stages = {"a": STAGE | {key: host} | keys}
    return {"stages": stages | ({"b": b} if b else {})}


def problems_of(**keys):
    with pytest.raises(ManifestError) as caught:
        Manifest.from_json(json.dumps(MINIMAL | keys))
    return caught.value.problems


def test_what_an_author_says_about_the_playground_is_kept():
    said = {"inputs": {"image": {"widget": "grid", "label": "Digit"}}, "output": {"view": "bars"}}
    manifest = Manifest.from_json(json.dumps(MINIMAL | {"playground": said}))

    assert manifest.playground.inputs["image"].widget == "grid"
    assert manifest.playground.output.view == "bars"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"output": {"view": "pie"}}, "output.view: 'pie' is not one of text, json, "),
        ({"inputs": {"x": {"lable": ""}}}, "did you mean label?"),
    ],
)
def test_mistakes_about_the_playground_are_named(said, problem):
    assert problem in problems_of(playground=said)[0]


def test_defaults_are_those_of_the_documentation():
    manifest = Manifest.from_json(json.dumps(MINIMAL))

    assert (manifest.version, manifest.batching.max_batch_size, manifest.batching.max_delay_ms) == (
        "1.0",
        32,
        0,
    )
    worker = manifest.worker
    assert (worker.replicas, worker.predict_timeout_s, worker.load_timeout_s) == (1, 30, 120)
    assert (manifest.signature, manifest.requirements, manifest.examples) == (None, None, ())


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({}, "service: is missing; module:Class, or a plugin's name for one"),
        ({"stages": {"a": STAGE}}, "pipeline: is missing; the stages that a request goes through"),
        (
            {"stages": {"a": STAGE}, "pipeline": ["a"], "options": {"b": 1}},
            "options: the model itself has no service; it belongs in [stages.NAME]",
        ),
        (
            {
                "stages": {"a": STAGE},
                "routes": {"/a": {"steps": ["a"]}},
                "examples": [{"input": 1}],
            },
            "examples: the model has no pipeline for them; they belong in [stages.NAME]",
        ),
    ],
)
def test_without_a_service_there_is_a_way_through_stages(keys, problem):
    table = {key: value for key, value in MINIMAL.items() if key != "service"} | keys
    with pytest.raises(ManifestError) as caught:
        Manifest.from_json(json.dumps(table))

    (found,) = caught.value.problems
    assert found.startswith(problem)


def test_examples_of_a_pipeline_are_not_those_of_the_models_own_stage():
    table = MINIMAL | {"stages": {"a": STAGE}, "examples": [{"input": 1}]}
    own = Manifest.from_json(json.dumps(table)).every_stage["predict"]
    whole = Manifest.from_json(json.dumps(table | {"pipeline": ["a", "predict"]}))

    assert len(own.examples) == 1
    assert (len(whole.examples), whole.every_stage["predict"].examples) == (1, ())


@pytest.mark.parametrize("key", ["colocated", "beside"])
def test_a_colocated_stage_has_the_batches_and_workers_of_its_host(key):
    stages = colocated(
        "b", key=key, b=STAGE | SMALL | {"worker": {"replicas": 3}}, warm_up={"batch_sizes": [8]}
    )
    manifest = Manifest.from_json(json.dumps(MINIMAL | stages)).of_stage("a")

    assert (manifest.batching.max_batch_size, manifest.worker.replicas) == (8, 3)
    assert manifest.warm_up.batch_sizes == (8,)


def test_a_stage_is_a_model_of_its_own_to_its_worker():
    stages = {"a": STAGE | {"options": {"b": 1}}}
    manifest = Manifest.from_json(json.dumps(MINIMAL | {"stages": stages, "pipeline": ["a"]}))

    assert list(manifest.every_stage) == ["predict", "a"]
    own, other = manifest.of_stage("predict"), manifest.of_stage("a")
    assert (own.service, own.options, own.stages, own.pipeline) == ("s:S", {}, {}, ())
    assert (other.service, other.options, other.name) == ("s:A", {"b": 1}, "m")


def test_each_replica_has_its_own_variables():
    worker = {"replicas": 2, "env": [{"A": "0"}, {"A": "1"}]}
    manifest = Manifest.from_json(json.dumps(MINIMAL | {"worker": worker}))

    assert [manifest.worker.variables(place)["A"] for place in range(3)] == ["0", "1", "0"]


def test_every_key_is_kept():
    tensor = {"name": "x", "dtype": "float32", "shape": [-1, 3]}
    table = MINIMAL | {
        "version": "2.0-rc.1",
        "description": "two\nlines",
        "license": "MIT",
        "requirements": "s.py",
        "signature": {"inputs": [tensor], "outputs": [tensor]},
        "batching": {"max_batch_size": 4, "max_delay_ms": 0.5, "max_concurrency": 9},
        "worker": {
            "replicas": 2,
            "ranks": 4,
            "preload": True,
            "predict_timeout_s": 1,
            "load_timeout_s": 2.5,
            "env": {"A": "b"},
        },
        "examples": [{"input": [1, None], "output": {"a": 1}, "tolerance": 0.1}],
        "warm_up": {"batch_sizes": [1, 4]},
        "assets": {"w": ASSET | {"size": 7, "file": "w"}},
        "rows": False,
        "retry": True,
        "calls": ["embed", "rank"],
        "cache": {"max_bytes": 1000, "ttl_s": 0.5},
        "envelope": False,
        "pickle": True,
        "media_type": "application/msgpack",
        "stream": {"end": "", "raw": True, "field": "stream"},
        "stages": {
            "a": {
                "service": "s:A",
                "signature": {"inputs": [tensor], "outputs": []},
                "batching": {"max_batch_size": 4, "max_delay_ms": 0.5, "max_concurrency": 9},
                "worker": {
                    "replicas": 2,
                    "ranks": 1,
                    "preload": False,
                    "predict_timeout_s": 1,
                    "load_timeout_s": 2.5,
                    "env": [{"A": "b"}, {"A": "c"}],
                },
                "examples": [{"input": 1}],
                "warm_up": {"batch_sizes": [2]},
                "options": {"b": 1},
            }
        },
        "pipeline": [
            {"stage": "a", "inputs": [], "each": False},
            {"stage": "predict", "inputs": ["a"], "each": True, "name": "b"},
            {"model": "other", "inputs": ["request", "b"], "each": False},
        ],
        "routes": {
            "/v1/x": {
                "steps": [{"stage": "a", "inputs": [], "each": False}],
                "description": "of a alone",
                "instances": True,
                "envelope": True,
                "stream": {"raw": False},
            }
        },
        "options": {"a": {"b": [1.5, "c", True, None]}},
    }

    manifest = Manifest.from_json(json.dumps(table))

    assert json.loads(manifest.to_json()) == table
    assert manifest.signature.inputs[0].shape == (-1, 3)
    assert manifest.files["s.py"].size == 1


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"name": ""}, "name: '' is not made of letters"),
        ({"name": "a..b"}, "name: 'a..b' is not made of letters"),
        ({"name": "-a"}, "name: '-a' is not made of letters"),
        ({"name": "a/b"}, "name: 'a/b' is not made of letters"),
        ({"name": "a\n"}, "name: 'a\\n' is not made of letters"),
        ({"name": "é"}, "name: 'é' is not made of letters"),
        ({"name": "n" * 65}, f"name: '{'n' * 59}... is 65 characters long, limit 64"),
        ({"name": "Ping"}, "name: 'Ping' is reserved for the server"),
        ({"name": 7}, "name: 7 is a number, not a string; put it in quotes"),
        ({"name": None}, "name: is missing"),
        ({"version": None}, "version: null; leave it out"),
        ({"version": 1.0}, "version: 1.0 is a number, not a string; put it in quotes"),
        ({"service": ""}, "service: '' is not module:Class"),
        ({"service": "a b"}, "service: 'a b' is not module:Class"),
        ({"service": "..x:y"}, "service: '..x:y' is not module:Class"),
        ({"service": "a:b:c"}, "service: 'a:b:c' is not module:Class"),
        ({"service": "$(id)"}, "service: '$(id)' is not module:Class"),
        ({"service": "os:system"}, "service: 'os:system': os is a module of Python"),
        ({"service": "__main__:x"}, "service: '__main__:x': __main__ is a module of Python"),
        (
            {"service": "a.b:C"},
            "service: 'a.b:C': the model has neither a/b.py nor a/b/__init__.py",
        ),
        ({"description": "a\0"}, "description: 'a\\x00' contains a control character"),
        ({"license": "a\nb"}, "license: 'a\\nb' contains a control character"),
        ({"requirements": "../r.txt"}, "requirements: '../r.txt' contains the part '..'"),
        ({"requirements": "r.txt"}, "requirements: 'r.txt' is not a file of the model"),
        ({"batching": 3}, "batching: 3 is a number, not a table"),
        ({"envelope": 0}, "envelope: 0 is a number, not true or false"),
        ({"pickle": "yes"}, "pickle: 'yes' is a string, not true or false"),
        ({"stream": {"end": "a\nb"}}, "stream.end: 'a\\nb' contains a control character"),
        ({"stream": {"field": ""}}, "stream.field: '' is 0 characters long, 1 to 128"),
        ({"batching": {"max_batch_size": 0}}, "batching.max_batch_size: 0 is below 1"),
        ({"batching": {"max_batch_size": True}}, "batching.max_batch_size: True is a boolean, not"),
        (
            {"batching": {"max_batch_size": 1.0}},
            "batching.max_batch_size: 1.0 is a number, not a w",
        ),
        ({"batching": {"max_batch_size": 10**30}}, "batching.max_batch_size: 1000000000000000000"),
        ({"batching": {"max_delay_ms": -1}}, "batching.max_delay_ms: -1 is below 0"),
        ({"batching": {"cost": "length"}}, "batching.max_batch_cost: is missing; cost requires it"),
        ({"batching": {"max_batch_cost": 9}}, "batching.cost: is missing; max_batch_cost requires"),
        ({"batching": {"cost": "_own", "max_batch_cost": 9}}, "batching.cost: '_own' is not"),
        (
            {"rows": True, "batching": {"cost": "length", "max_batch_cost": 9}},
            "batching.cost: is for requests with one input, and rows is true",
        ),
        ({"worker": {"replicas": 1025}}, "worker.replicas: 1025 is above 1024"),
        ({"worker": {"predict_timeout_s": 0}}, "worker.predict_timeout_s: 0 is below 0.001"),
        ({"worker": {"env": {"A=B": "c"}}}, "worker.env: key: 'A=B' is not a variable name"),
        ({"worker": {"env": {"A": 1}}}, "worker.env.A: 1 is a number, not a string; put it in q"),
        ({"worker": {"env": {"A": "\0"}}}, "worker.env.A: '\\x00' contains a control character"),
        ({"worker": {"env": {"SERVEKIT_X": ""}}}, "worker.env: key: 'SERVEKIT_X' is reserved for"),
        ({"signature": {"inputs": []}}, "signature.inputs: has 0 items, limit 1 to 256"),
        ({"signature": {}}, "signature.inputs: is missing"),
        ({"examples": [{}]}, "examples[0].input: give either input or input_file"),
        ({"examples": [{"input_file": "x"}]}, "examples[0].input_file: 'x' is not a file of the"),
        ({"examples": [{"input": 1, "tolerance": 1}]}, "examples[0].tolerance: requires output"),
        (
            {"warm_up": {"batch_sizes": [1, 64]}},
            "warm_up.batch_sizes[1]: 64 is above max_batch_size, 32",
        ),
        ({"warm_up": {"batch_sizes": [0]}}, "warm_up.batch_sizes[0]: 0 is below 1"),
        ({"assets": {"w": {"url": "https://a/w"}}}, "assets.w.sha256: is missing"),
        ({"assets": {"w": ASSET | {"sha256": "00"}}}, "assets.w.sha256: '00' is not 64 hex"),
        ({"assets": {"w": ASSET | {"url": "w.bin"}}}, "assets.w.url: 'w.bin' is not a URL"),
        (
            {"assets": {"w": ASSET | {"url": "https://me:secret@a/w"}}},
            "assets.w.url: 'https://me:secret@a/w' contains a password",
        ),
        (
            {"assets": {"w": ASSET | {"url": "file://other/w"}}},
            "assets.w.url: 'file://other/w' is not on this machine",
        ),
        (
            {"assets": {"w": ASSET | {"file": "a/b"}}},
            "assets.w.file: 'a/b' is not the name of a file alone",
        ),
        ({"assets": {"w": ASSET | {"file": ".."}}}, "assets.w.file: '..' contains the part"),
        ({"assets": {"../w": ASSET}}, "assets: key: '../w' is not made of letters"),
        ({"options": []}, "options: [] is a list, not a table"),
        ({"cache": {"max_bytes": 0}}, "cache.max_bytes: 0 is below 1"),
        ({"cache": {"ttl": 1}}, "cache.ttl: unknown key; did you mean ttl_s?"),
        ({"retry": 1}, "retry: 1 is a number, not true or false"),
        ({"rows": 1}, "rows: 1 is a number, not true or false"),
        (
            {"rows": True, "routes": {"/v1/x": {"steps": ["predict"]}}},
            "rows: is for models without stages, pipeline and routes",
        ),
        ({"files": FILES | {"../x": INFO}}, "files: key: '../x' contains the part '..'"),
        ({"files": {"s.py": {"size": -1, "sha256": SHA}}}, "files.s.py.size: -1 is below 0"),
        ({"files": {"s.py": {"size": 1, "sha256": "A" * 64}}}, "files.s.py.sha256: 'AAAA"),
        ({"files": {"s.py": {"size": 1}}}, "files.s.py.sha256: is missing"),
        ({"nmae": "x"}, "nmae: unknown key; did you mean name?"),
        ({"stage": {}}, "stage: unknown key; did you mean stages?"),
        ({"stages": {"predict": STAGE}}, "stages.predict: is the model's own service"),
        (
            {"stages": {"request": STAGE}},
            "stages: key: 'request' is reserved for the",
        ),
        ({"stages": {"a/b": STAGE}}, "stages: key: 'a/b' is not made of letters"),
        ({"stages": {"a": {}}}, "stages.a.service: is missing"),
        (colocated("b"), "stages.a.colocated: 'b' is not a stage of the model"),
        (colocated("a"), "stages.a.colocated: 'a' is the stage itself"),
        (colocated("a", key="beside"), "stages.a.beside: 'a' is the stage itself"),
        (
            colocated("b", b=STAGE, beside="b"),
            "stages.a.beside: is an older name of colocated, which is given too; leave it out",
        ),
        (
            colocated("b", b=STAGE | {"colocated": "predict"}),
            "stages.a.colocated: 'b' runs in the workers of 'predict'; name that stage",
        ),
        (
            colocated("predict", worker={"replicas": 2}),
            "stages.a.worker: is that of the stage 'predict'; leave it out",
        ),
        (
            colocated("predict", batching={"max_batch_size": 8}),
            "stages.a.batching: is that of the stage 'predict'",
        ),
        (
            colocated("b", b=STAGE | SMALL, warm_up={"batch_sizes": [9]}),
            "stages.a.warm_up.batch_sizes[0]: 9 is above max_batch_size, 8",
        ),
        ({"stages": {"a": {"service": "b:C"}}}, "stages.a.service: 'b:C': the model has neither"),
        (
            {"stages": {"a": STAGE | {"warm_up": {"batch_sizes": [99]}}}},
            "stages.a.warm_up.batch_sizes[0]: 99 is above max_batch_size, 32",
        ),
        (
            {"worker": {"replicas": 3, "env": [{}, {}]}},
            "worker.env: has 2 tables, but replicas is 3",
        ),
        ({"worker": {"env": [{"SERVEKIT_X": ""}]}}, "worker.env[0]: key: 'SERVEKIT_X' is res"),
        ({"pipeline": ["nix"]}, "pipeline[0].stage: 'nix' is not a stage of the model; known: pre"),
        ({"pipeline": [{}]}, "pipeline[0].stage: give either stage or model"),
        ({"pipeline": ["predict", "predict"]}, "pipeline[1].name: 'predict' is the name of an ea"),
        (
            {"pipeline": [{"stage": "predict", "inputs": ["later"]}]},
            "pipeline[0].inputs: 'later' is neither an earlier step nor request",
        ),
        (
            {"pipeline": ["predict", {"model": "other", "inputs": ["request"]}]},
            "pipeline[0]: no later step uses the output of 'predict'",
        ),
        (
            {"pipeline": [{"stage": "predict", "each": True, "inputs": ["request", "request"]}]},
            "pipeline[0].each: requires a single input, which is a list",
        ),
        ({"routes": {"v1/x": ROUTE}}, "routes: key: 'v1/x' is not a path such as /v1/embeddings"),
        ({"routes": {"/v1/../x": ROUTE}}, "routes: key: '/v1/../x' is not a path"),
        ({"routes": {"/Ping/x": ROUTE}}, "routes: key: '/Ping/x' is reserved for the server"),
        ({"routes": {"/v1/x": {"steps": []}}}, "routes./v1/x.steps: has 0 items, limit 1 to 64"),
        (
            {"routes": {"/v1/x": {"steps": ["a"]}}},
            "routes./v1/x.steps[0].stage: 'a' is not a stage",
        ),
        (
            {"batching": {"max_bach_size": 1}},
            "batching.max_bach_size: unknown key; did you mean max_b",
        ),
        ({"max_batch_size": 1}, "max_batch_size: unknown key here; it belongs in [batching]"),
        ({"a\nb": 1}, "'a\\nb': unknown key"),
    ],
)
def test_one_wrong_key_is_one_problem_that_names_it(keys, problem):
    found = problems_of(**keys)

    assert [line for line in found if line.startswith(problem)], found
    assert len(found) == 1
    assert found[0].isprintable()


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        ({"dtype": "float31"}, "dtype: 'float31' is not one of bool"),
        ({"dtype": "O"}, "dtype: 'O' is not one of bool"),
        (
            {"shape": [0, 3]},
            "shape[0]: 0 is not allowed (-1 means any size; leave out the batch",
        ),
        ({"shape": [-2]}, "shape[0]: -2 is below -1"),
        ({"shape": [2**63]}, "shape[0]: 9223372036854775808 is above 2147483648"),
        ({"shape": [1] * 33}, "shape: has 33 items, limit 0 to 32"),
        ({"shape": 3}, "shape: 3 is a number, not a list"),
    ],
)
def test_a_wrong_tensor_is_named(tensor, problem):
    good = {"name": "x", "dtype": "float32", "shape": []}

    found = problems_of(signature={"inputs": [good, good | {"name": "y"} | tensor]})

    assert len(found) == 1
    assert found[0].startswith(f"signature.inputs[1].{problem}")


def test_tensors_of_one_side_have_different_names():
    tensor = {"name": "x", "dtype": "float32", "shape": []}

    found = problems_of(signature={"inputs": [tensor, tensor], "outputs": [tensor]})

    assert found == ["signature.inputs: the name 'x' is used 2 times"]


def test_all_problems_are_reported_at_once():
    found = problems_of(
        name="/", service="a:b", batching={"max_batch_size": 0}, worker={"replicas": 0, "x": 1}
    )

    assert [line.split(":")[0] for line in found] == [
        "name",
        "batching.max_batch_size",
        "worker.x",
        "worker.replicas",
        "service",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "[] is not a table"),
        ("{}", "format: is missing"),
        (
            '{"runtime": "python"}',
            "format: is missing; runtime looks like an archive made for Torch",
        ),
        ('{"format": 2, "new": 1}', "format: 2 is newer than 1, the newest this reader knows"),
        ('{"format": 1}', "created_by: is missing"),
        ('{"format": 0, "created_by": "", "files": {}}', "format: 0 is below 1"),
        ('{"a": 1, "a": 2}', "key 'a' is given twice"),
    ],
)
def test_what_is_no_manifest_of_ours_says_so_first(text, problem):
    with pytest.raises(ManifestError) as caught:
        Manifest.from_json(text)

    assert caught.value.problems[0].startswith(problem)
    assert str(caught.value).startswith("MAR-INF/MANIFEST.json: ")


def test_files_that_clash_are_refused():
    found = problems_of(files=FILES | {"S.py": INFO})

    assert found == ["files: 'S.py' and 's.py' clash"]


def test_a_manifest_cannot_be_made_wrong():
    with pytest.raises(ManifestError, match="max_batch_size: 0 is below 1"):
        Batching(max_batch_size=0)
    with pytest.raises(ManifestError, match="name: is missing"):
        Manifest(service="onnx")
    with pytest.raises(ManifestError, match="name: 'a b'"):
        replace(Manifest(name="a", service="onnx"), name="a b")


def test_a_manifest_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Manifest(name="a", service="onnx").name = "b"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
ODD = st.sampled_from(
    ["x" * 1_000_000, "\ud800", 2**70, -1, float("nan"), "$(id)", "{{7*7}}", "a\nb"]
)


def check(table):
    """Return the manifest of *table*, or its problems."""
    try:
        return Manifest.from_mapping(table)
    except ManifestError as error:
        return error.problems


@settings(max_examples=300, deadline=None)
@given(key=st.sampled_from([*Manifest.__dataclass_fields__, "x"]), value=JSON | ODD)
def test_any_value_of_any_key_is_taken_or_refused_by_name(key, value):
    found = check(MINIMAL | {key: value})

    if isinstance(found, Manifest):
        assert Manifest.from_mapping(json.loads(found.to_json())) == found
    else:
        assert all(key in line and line.isprintable() for line in found)


@settings(max_examples=100, deadline=None)
@given(table=st.sampled_from(["batching", "worker", "signature"]), key=st.text(), value=JSON)
def test_any_value_in_a_table_is_taken_or_refused(table, key, value):
    found = check(MINIMAL | {table: {key: value}, "examples": [{key: value}]})

    assert isinstance(found, Manifest) or all(line.isprintable() for line in found)


def test_problems_quote_no_character_that_a_terminal_obeys():
    stages = {
        name: {"service": "onnx"} for name in ("a\nforged: line", "\x1b[2J", "\u202e", "\ud800")
    }

    found = check({"name": "a", "stages": stages, "pipeline": ["b"]})

    assert any("pipeline[0].stage: 'b' is not a stage" in line for line in found)
    assert all(line.isprintable() for line in found)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_bytes_are_refused_and_nothing_else(text):
    with pytest.raises(ManifestError):
        Manifest.from_json(text)


@settings(max_examples=50, deadline=None)
@given(
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}x", fullmatch=True),
    shape=st.lists(st.just(-1) | st.integers(1, 2**31), max_size=32),
    options=st.dictionaries(st.text(max_size=5), st.integers(-(2**63), 2**64 - 1) | st.text()),
    size=st.integers(0, 2**62),
)
def test_what_is_valid_survives_a_round_trip(name, shape, options, size):
    manifest = Manifest(
        name=name,
        service="onnx",
        signature={"inputs": [Tensor(name="x", dtype="str", shape=shape)]},
        options=options,
        files={"f": FileInfo(size=size, sha256=SHA)},
    )

    assert Manifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize(
    ("url", "file", "expected"),
    [
        ("https://example.org/a/w.safetensors?v=1", None, "w.safetensors"),
        ("https://example.org/a/w.safetensors", "weights", "weights"),
        ("https://example.org/", None, "asset"),
        ("https://example.org/a%2f..%2fb", None, "asset"),
        ("https://example.org/..", None, "asset"),
    ],
)
def test_an_asset_is_called_as_it_says_or_as_its_url_ends(url, file, expected):
    assert Asset(url=url, sha256=SHA, file=file).file_name == expected
