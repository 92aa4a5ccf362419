# SPDX-License-Identifier: Apache-2.0
"""``servekit torchserve``: which server the flags and the properties describe."""

import argparse
import json
import stat
from zipfile import ZipFile

import pytest
from servekit_torchserve.command import start
from servekit_torchserve.command.tokens import make_tokens

from servekit.errors import StartupError

MANIFEST = {"model": {"modelName": "resnet", "modelVersion": "2.0", "handler": "h.py"}}
CONFIGURED = {"resnet": {"2.0": {"defaultVersion": True, "minWorkers": 2, "maxWorkers": 4}}}


@pytest.fixture
def store(tmp_path):
    """A model store with an archive, an unpacked archive, and a file that is neither."""
    store = tmp_path / "store"
    (store / "unpacked" / "MAR-INF").mkdir(parents=True)
    (store / "notes.txt").touch()
    with ZipFile(store / "a.mar", "w") as archive:
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps(MANIFEST))
    return store


def planned(*arguments, **environment):
    parser = argparse.ArgumentParser()
    start.configure(parser)
    return start.plan(parser.parse_args(list(map(str, arguments))), environment)


def test_archives_are_looked_up_in_the_model_store(store):
    found = planned("--model-store", store, "--models", "a.mar", "b=a.mar", "s3://bucket/c.mar")

    assert found.models == [f"{store}/a.mar", f"b={store}/a.mar", "s3://bucket/c.mar"]


@pytest.mark.parametrize("word", ["all", "ALL"])
def test_all_archives_of_the_model_store(store, word):
    assert planned("--model-store", store, "--models", word).models == [
        f"{store}/a.mar",
        f"{store}/unpacked",
    ]


@pytest.mark.parametrize("archive", ["none.mar", "../store/a.mar"])
def test_an_archive_that_is_not_in_the_store_ends_the_start(store, archive):
    with pytest.raises(StartupError, match="there is no archive"):
        planned("--model-store", store, "--models", archive)


def test_a_server_needs_a_model_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(StartupError, match="--model-store: needed"):
        planned()


def test_properties_name_the_store_and_the_models(store, tmp_path):
    config = tmp_path / "config.properties"
    config.write_text(f"model_store={store}\nload_models=a.mar\nmodels={json.dumps(CONFIGURED)}\n")
    found = planned("--ts-config", config)

    assert found.models == [f"{store}/a.mar"]
    assert found.assignments == ['"resnet".replicas={ min = 2, max = 4 }']
    assert found.settings["SERVEKIT_PLUGIN_TORCHSERVE_MODEL_STORE"] == str(store)


def test_the_file_of_the_working_directory_or_of_the_variable_is_read(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.properties").write_text(f"model_store={store}\njob_queue_size=3\n")
    (tmp_path / "other").write_text(f"model_store={store}\njob_queue_size=4\n")

    assert planned().settings["SERVEKIT_QUEUE"] == "3"
    assert planned(TS_CONFIG_FILE="other").settings["SERVEKIT_QUEUE"] == "4"


@pytest.mark.parametrize(
    ("table", "assignments"),
    [
        ({"minWorkers": 2, "maxWorkers": 2}, ['"resnet".replicas=2']),
        ({"minWorkers": 0, "maxWorkers": 3}, ['"resnet".replicas={ min = 1, max = 3 }']),
        ({"batchSize": 4}, ['"resnet".batching.max_batch_size=4']),
        ({"maxBatchDelay": 50}, ['"resnet".batching.max_delay_ms=50']),
        ({"responseTimeout": 60}, []),
    ],
)
def test_settings_of_single_models(store, tmp_path, table, assignments):
    config = tmp_path / "config.properties"
    config.write_text(f"models={json.dumps({'resnet': {'2.0': table}, 'vgg': {'1': {}}})}\n")
    found = planned("--model-store", store, "--models", "a.mar", "--ts-config", config)

    assert list(found.assignments) == assignments
    assert "models: vgg: no counterpart (no such model is served)" in start.report(found.rows)


def test_some_properties_are_options_of_each_archive_of_torchserve(store, tmp_path):
    config = tmp_path / "config.properties"
    config.write_text("service_envelope=json\ndecode_input_request=FALSE\n")
    found = planned(
        *("--model-store", store, "--models", "a.mar", "two=a.mar", "s3://bucket/c.mar"),
        *("--ts-config", config),
    )

    assert found.assignments == [
        '"resnet".options.decode_input=false',
        '"two".options.decode_input=false',
        '"resnet".options.envelope=json',
        '"two".options.envelope=json',
    ]


def test_tokens_are_needed_unless_they_are_disabled(store, tmp_path):
    config = tmp_path / "config.properties"
    config.write_text("disable_token_authorization=true\n")

    assert planned("--model-store", store).has_tokens
    assert not planned("--model-store", store, "--disable-token-auth").has_tokens
    assert not planned("--model-store", store, "--ts-config", config).has_tokens


@pytest.mark.parametrize(
    ("address", "flags", "warned"),
    [
        pytest.param("127.0.0.1", ["--disable-token-auth"], 0, id="this machine only"),
        pytest.param("localhost", ["--disable-token-auth"], 0, id="this machine by its name"),
        pytest.param("0.0.0.0", ["--disable-token-auth"], 1, id="every interface"),
        pytest.param("[::]", ["--disable-token-auth"], 1, id="every interface of IPv6"),
        pytest.param("0.0.0.0", [], 0, id="with tokens"),
    ],
)
def test_management_for_everybody_is_warned_of(store, tmp_path, address, flags, warned):
    config = tmp_path / "config.properties"
    config.write_text(f"management_address=http://{address}:8081\n")
    found = planned("--model-store", store, "--ts-config", config, *flags)

    assert len(start.warnings_of(found)) == warned


def test_the_key_file_has_a_token_for_each_area_that_lacks_one(tmp_path):
    made = make_tokens(tmp_path, {"SERVEKIT_PREDICT_TOKEN_FILE": "mine"})
    keys = json.loads((tmp_path / "key_file.json").read_text())

    assert made == {"SERVEKIT_MANAGE_TOKEN": keys["management"]["key"]}
    assert keys.keys() == {"management"}
    assert stat.S_IMODE((tmp_path / "key_file.json").stat().st_mode) == 0o600


def test_changes_are_kept_in_the_model_store_unless_snapshots_are_off(store):
    kept = planned("--model-store", store).settings["SERVEKIT_STATE"]
    forgotten = planned("--model-store", store, "--ncs").settings

    assert kept == f"{store}/.servekit-state.json"
    assert "SERVEKIT_STATE" not in forgotten


def test_the_report_names_every_property(store, tmp_path, capsys):
    config = tmp_path / "config.properties"
    config.write_text(f"model_store={store}\njob_queue_size=3\nvmargs=-Xmx4g\n")
    parser = argparse.ArgumentParser()
    run = start.configure(parser)

    assert run(parser.parse_args(["--ts-config", str(config), "--report"])) == 0
    assert capsys.readouterr().out.splitlines() == [
        "job_queue_size=3: SERVEKIT_QUEUE",
        "vmargs=-Xmx4g: no counterpart (not needed: there is no virtual machine)",
    ]
