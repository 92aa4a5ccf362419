# SPDX-License-Identifier: Apache-2.0
"""The operator's settings of a model change its manifest, and each value says where it is from."""

import hashlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servekit_archiver import Manifest, build_archive

from servekit.errors import StartupError
from servekit.settings import load_settings
from servekit.settings.cpu_lists import cpu_numbers, cpu_share
from servekit.settings.deployments import Deployment
from servekit.settings.models import deployments_of
from servekit.supervisor.preparing.deploying import deploy
from servekit.supervisor.preparing.devices import device_values, shared_out
from servekit.supervisor.preparing.messages import PrepareRequest
from servekit.supervisor.preparing.prepare import answer

STAGES = {
    "name": "m",
    "service": "service:S",
    "options": {"a": 1},
    "stages": {
        "decode": {"service": "service:D", "worker": {"replicas": 2}},
        "resize": {"service": "service:R", "colocated": "decode", "warm_up": {"batch_sizes": [9]}},
    },
    "pipeline": ["decode", "resize", "predict"],
}


def deployed(manifest, *assignments, replicas=None, environment=None):
    settings = load_settings({"set": assignments, "replicas": replicas}, None, {})
    table = {"name": "m", "service": "service:S"} | manifest
    known = Manifest.from_mapping({key: value for key, value in table.items() if value})
    return deploy(known, deployments_of(settings, ""), "/m.mar", environment or {})


def sources(found):
    return {row.name: (row.value, row.source) for row in found.settings}


def test_values_and_their_sources():
    archive = {
        "worker": {"env": {"A": "1", "B": "1"}},
        "batching": {"max_batch_size": 4},
        "options": {"net": {"depth": 2, "width": 8}},
    }
    found = deployed(
        archive, "m.env.B=2", "m.options.net.depth=3", "m.pass_env=['HF_*']", replicas="2"
    )

    assert sources(found) == {
        "replicas": (2, "--replicas"),
        "ranks": (1, "default"),
        "preload": (False, "default"),
        "batching.max_batch_size": (4, "archive"),
        "batching.max_concurrency": (128, "default"),
        "batching.max_delay_ms": (0, "default"),
        "env.A": ("1", "archive"),
        "env.B": ("2", "--set"),
        "options.net.depth": (3, "--set"),
        "options.net.width": (8, "archive"),
        "path": ("/m.mar", "--models"),
        "pass_env": (["HF_*"], "--set"),
    }
    assert found.manifest.options == {"net": {"depth": 3, "width": 8}}
    assert (found.manifest.worker.replicas, found.pass_env) == (2, ["HF_*"])
    assert found.environments == {"predict": [{"A": "1", "B": "2"}]}


def test_settings_of_one_model_win_over_those_of_all():
    assert deployed({}, "m.replicas=3", replicas="2").manifest.worker.replicas == 3


def test_settings_of_other_models_are_left_out():
    assert deployed({}, "other.replicas=3").manifest.worker.replicas == 1


def test_a_scalar_takes_the_place_of_a_table_and_a_table_that_of_a_scalar():
    found = deployed({"options": {"a": {"b": 1}, "c": 1}}, "m.options.a=5", "m.options.c.d=6")

    assert found.manifest.options == {"a": 5, "c": {"d": 6}}


def test_batches_of_the_warm_up_that_became_too_large_are_left_out():
    archive = {"batching": {"max_batch_size": 32}, "warm_up": {"batch_sizes": [8, 32]}}
    found = deployed(archive, "m.batching.max_batch_size=8")

    assert found.manifest.warm_up.batch_sizes == (8,)


KEYS = st.sampled_from(["a", "b", "c.d"])
OPTIONS = st.recursive(
    st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=2),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
TABLES = st.dictionaries(KEYS, OPTIONS, max_size=3)


def merged(under, over):
    """Return *under* with the values of *over*: tables key by key, all else as a whole."""
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return over
    common = {key: merged(under[key], value) for key, value in over.items() if key in under}
    return under | over | common


@given(TABLES, TABLES, TABLES)
def test_options_are_merged_key_by_key(archive, file, command):
    manifest = Manifest.from_mapping({"name": "m", "service": "a:S", "options": archive})
    layers = [Deployment(options=file, source="file"), Deployment(options=command, source="--set")]
    found = deploy(manifest, layers, "/m", {}).manifest.options

    assert found == merged(merged(archive, file), command)


# ---------------------------------------------------------------- replicas and devices


@pytest.mark.parametrize(
    ("assignments", "replicas", "visible"),
    [
        pytest.param(["m.devices=[0, 1]"], 2, ["0", "1"], id="one replica for each device"),
        pytest.param(["m.devices=[0, 1]", "m.replicas=4"], 4, ["0", "1"], id="several for each"),
        pytest.param(["m.devices=['0,1', 'GPU-8']"], 2, ["0,1", "GPU-8"], id="several devices"),
        pytest.param(["m.devices=cpu", "m.replicas=2"], 2, [""], id="GPUs are hidden"),
    ],
)
def test_devices(assignments, replicas, visible):
    found = deployed({}, *assignments)
    (environments,) = found.environments.values()

    assert found.manifest.worker.replicas == replicas
    assert [table["CUDA_VISIBLE_DEVICES"] for table in environments] == visible


def test_a_number_of_replicas_that_comes_from_the_devices_says_so():
    assert sources(deployed({}, "m.devices=[0, 1]"))["replicas"] == (2, "devices")
    archive = {"worker": {"replicas": 3}}
    assert sources(deployed(archive, "m.devices=[0, 1]"))["replicas"] == (3, "archive")


def test_tables_for_each_replica_are_repeated_for_more_replicas_and_devices():
    archive = {"worker": {"replicas": 2, "env": [{"A": "0"}, {"A": "1"}]}}
    found = deployed(archive, "m.replicas=5", "m.env.B=2", "m.devices=[4, 5, 6]")
    (environments,) = found.environments.values()

    assert [(each["A"], each["CUDA_VISIBLE_DEVICES"]) for each in environments] == [
        ("0", "4"), ("1", "5"), ("0", "6"), ("1", "4"), ("0", "5"), ("1", "6"),
    ]  # fmt: skip
    assert [each["A"] for each in found.manifest.worker.env] == ["0", "1", "0", "1", "0"]
    assert {each["B"] for each in environments} == {"2"}
    assert sources(found)["env"] == ([{"A": "0"}, {"A": "1"}], "archive")


@pytest.mark.parametrize(
    ("devices", "allowed", "values"),
    [
        pytest.param(None, None, [], id="nothing is set"),
        pytest.param([0, 2], None, ["0", "2"], id="as CUDA counts them"),
        pytest.param([0, "GPU-8"], "3,5", ["3", "GPU-8"], id="counted among the visible ones"),
        pytest.param("cpu", "3", [""], id="none"),
        pytest.param("auto", "3,5", ["3", "5"], id="all visible ones"),
        pytest.param("auto", None, ["0", "1"], id="all of the machine"),
        pytest.param("auto", "", [], id="all are hidden"),
        pytest.param("auto", "1,-1,2", ["1"], id="as CUDA reads the list"),
    ],
)
def test_values_of_devices(tmp_path, devices, allowed, values):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    environment = {} if allowed is None else {"CUDA_VISIBLE_DEVICES": allowed}

    assert device_values(devices, environment, tmp_path) == values


def test_a_device_that_the_server_does_not_see_is_refused():
    with pytest.raises(StartupError, match="devices: 2 is not one of CUDA_VISIBLE_DEVICES=3,5, c"):
        device_values([0, 2], {"CUDA_VISIBLE_DEVICES": "3,5"})


@pytest.mark.parametrize(
    ("devices", "ranks", "values"),
    [
        pytest.param(["0", "1"], 1, ["0", "1"], id="one rank"),
        pytest.param(["0", "1", "4", "5"], 2, ["0,1", "4,5"], id="two replicas"),
        pytest.param(["0,1", "2,3"], 4, ["0,1,2,3"], id="groups"),
        pytest.param([""], 2, [""], id="hidden"),
        pytest.param([], 2, [], id="all"),
    ],
)
def test_devices_are_shared_out_to_replicas_of_several_ranks(devices, ranks, values):
    assert shared_out(devices, ranks) == values


def test_a_cpu_that_the_server_may_not_use_is_refused():
    with pytest.raises(StartupError, match="cpus: 0,9999: the server may not use CPU 9999"):
        deployed({}, "m.cpus='0,9999'")


@pytest.mark.parametrize(
    ("count", "shares"),
    [
        pytest.param(1, [[0, 1, 2, 5]], id="one"),
        pytest.param(2, [[0, 1], [2, 5]], id="halves"),
        pytest.param(3, [[0], [1], [2]], id="equal, though one is left over"),
        pytest.param(5, [[0], [1], [2], [5], [0]], id="more than there are CPUs"),
    ],
)
def test_cpus_are_shared_equally(count, shares):
    cpus = cpu_numbers("5,0-2")

    assert [cpu_share(cpus, place, count) for place in range(count)] == shares


# ---------------------------------------------------------------- stages


def test_values_of_the_model_are_for_every_stage_and_its_options_for_its_own_service():
    found = deployed(
        STAGES, "m.replicas=3", "m.stages.decode.replicas=4", "m.options.a=2",
        "m.stages.resize.options.b=1", "m.env.X=1",
    )  # fmt: skip
    manifest = found.manifest

    assert (manifest.worker.replicas, manifest.stages["decode"].worker.replicas) == (3, 4)
    assert (manifest.options, manifest.stages["decode"].options) == ({"a": 2}, {})
    assert manifest.stages["resize"].options == {"b": 1}
    assert manifest.stages["decode"].worker.env == manifest.worker.env == {"X": "1"}
    assert sources(found)["stages.decode.replicas"] == (4, "--set")
    assert sources(found)["stages.predict.options.a"] == (2, "--set")
    assert "stages.resize.replicas" not in sources(found)


def test_a_later_source_wins_over_an_earlier_one_of_a_stage():
    (early,) = load_settings({"set": ["m.stages.decode.replicas=4"]}, None, {}).deployments
    (late,) = load_settings({"set": ["m.replicas=3"]}, None, {}).deployments
    manifest = deploy(Manifest.from_mapping(STAGES), [early, late], "/m", {}).manifest

    assert manifest.stages["decode"].worker.replicas == 3


def test_a_colocated_stage_is_warmed_up_with_the_batches_of_its_host():
    manifest = deployed(STAGES, "m.stages.decode.batching.max_batch_size=8").manifest

    assert manifest.stages["resize"].warm_up.batch_sizes == ()


@pytest.mark.parametrize(
    ("manifest", "assignment", "complaint"),
    [
        pytest.param(STAGES, "m.stages.decod.replicas=1", "did you mean 'decode'?", id="misspelt"),
        pytest.param(
            {}, "m.stages.x.replicas=1", "--set: m.stages.x: the model has no such stage; known:"
            " none", id="no stages",
        ),
        pytest.param(
            STAGES, "m.stages.resize.replicas=2", "--set: m.stages.resize: runs in the workers of"
            " decode; only options can be set", id="colocated",
        ),
        pytest.param(
            STAGES | {"service": None, "options": {}, "pipeline": ["decode", "resize"]},
            "m.options.a=1", "--set: m.options: the model itself has no service", id="options",
        ),
    ],
)  # fmt: skip
def test_stages_are_refused(manifest, assignment, complaint):
    with pytest.raises(StartupError) as refusal:
        deployed(manifest, assignment)

    assert complaint in str(refusal.value)


# ---------------------------------------------------------------- the prepare child


def prepare(path, cache, *assignments, name="digits"):
    settings = load_settings({"set": assignments}, None, {})
    known = deployments_of(settings, name)
    request = PrepareRequest(str(path), name, cache_dir=str(cache), deployments=known)
    return answer(request, lambda step: None)


def test_workers_and_front_ends_see_one_manifest(model, tmp_path):
    found = prepare(model(), tmp_path, "digits.replicas=2", "digits.options.x=1").model
    (stage,) = found.stages

    assert stage.replicas == 2
    assert json.loads(stage.manifest)["options"]["x"] == 1
    assert json.loads(found.manifest)["worker"]["replicas"] == 2


def test_the_same_content_with_other_settings_is_not_the_same(model, tmp_path):
    directory = model()
    one, same, other = (
        prepare(directory, tmp_path, text).model
        for text in ("digits.replicas=1", "digits.pass_env=[]", "digits.env.X=1")
    )

    assert (one.is_same(same), one.is_same(other)) == (True, False)


def test_the_digest_of_an_archive_is_checked_before_it_is_unpacked(model, tmp_path):
    archive, cache = tmp_path / "digits.mar", tmp_path / "cache"
    build_archive(model(), archive)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    refused = prepare(archive, cache, f"digits.sha256={'0' * 64}")

    assert f"--set: digits.sha256: expected {'0' * 64}, but {archive} has {digest}" in refused.error
    assert not cache.exists()
    assert prepare(archive, cache, f"digits.sha256={digest}").model is not None


def test_a_directory_has_no_digest(model, tmp_path):
    directory = model()
    refused = prepare(directory, tmp_path, f"digits.sha256={'0' * 64}")

    assert refused.error == (
        f"--set: digits.sha256: only archives have one, and {directory} is a directory"
    )


def test_a_digest_needs_a_model_that_is_named_before_it_is_opened(model, tmp_path):
    refused = prepare(model(), tmp_path, f"digits.sha256={'0' * 64}", name="")

    assert "--set: digits.sha256: serve the model as digits=PATH" in refused.error


def test_settings_arrive_in_the_child_as_they_were_sent():
    known = load_settings(
        {"set": ["m.stages.a.replicas=2", "m.options.x=[1, {y = 0.5}]", "m.devices=[0, 'GPU-1']"]},
        None, {},
    ).deployments  # fmt: skip
    sent = msgspec.msgpack.encode(PrepareRequest("/m", deployments=list(known)))

    assert msgspec.msgpack.decode(sent, type=PrepareRequest).deployments == list(known)
