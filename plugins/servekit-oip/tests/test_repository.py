# SPDX-License-Identifier: Apache-2.0
"""Many models in one server, loaded and unloaded as KServe's agent and its like do it."""

import json
import threading

import pytest
from servekit_archiver import build_archive

from servekit.testing import ServedModel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
SERVICE = """
from servekit import Service


class Scale(Service):
    def predict(self, batch: list[float]) -> list[float]:
        return [value * {factor} for value in batch]
"""
ROUNDS = 8


def write_model(place, factor, version="1.0"):
    place.mkdir(parents=True, exist_ok=True)
    (place / "model.toml").write_text(f'version = "{version}"\nservice = "service:Scale"\n')
    (place / "service.py").write_text(SERVICE.format(factor=factor))
    return place


def call(server, path, value=None, **fields):
    """Return status and JSON of a POST."""
    response = server.post(path, json.dumps(value or {}).encode(), headers=fields)
    return response.status, json.loads(response.body or b"null")


def load(server, name, source="", **fields):
    parameters = {"parameters": {"source": str(source)}} if source else {}
    return call(server, f"/v2/repository/models/{name}/load", parameters, **fields)


def unload(server, name):
    return call(server, f"/v2/repository/models/{name}/unload")


def predict(server, name):
    """Return the answer for 21, or the status."""
    status, found = call(server, f"/{name}/predict", 21)
    return found["prediction"] if status == 200 else status


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def agents(store, tmp_path, monkeypatch):
    """A server without models whose repository is open, as an agent in its pod finds it."""
    monkeypatch.setenv("SERVEKIT_PLUGIN_OIP_GRPC", "127.0.0.1:0")
    monkeypatch.setenv("SERVEKIT_PLUGIN_OIP_OPEN_REPOSITORY", "true")
    monkeypatch.setenv("SERVEKIT_MODEL_STORE", str(store))
    monkeypatch.setenv("SERVEKIT_MANAGE_TOKEN", "manager")
    steady = write_model(tmp_path / "steady", 1)
    with ServedModel(steady, cache_dir=str(tmp_path / "cache"), front_ends=2) as server:
        yield server.wait_ready()


def test_models_of_the_store_are_loaded_and_unloaded_by_name(agents, store, tmp_path):
    unknown = load(agents, "double")
    write_model(store / "double", 2)
    build_archive(write_model(tmp_path / "triple", 3), store / "triple.mar")
    loaded = [load(agents, name) for name in ("double", "triple")]
    answers = [predict(agents, name) for name in ("double", "triple")]
    write_model(store / "double", 4, "2.0")
    again, new = load(agents, "double"), predict(agents, "double")
    gone = unload(agents, "double"), predict(agents, "double")

    assert unknown[0] == 404
    assert unknown[1]["error"].endswith(
        "no model of this name is or was served or in the model store"
    )
    assert loaded == [(200, None)] * 2
    assert answers == [42, 63]
    assert (again, new) == ((200, None), 84)
    assert gone == ((200, None), 404)


def test_what_cannot_be_done_is_refused(agents):
    found = [
        call(agents, f"/v2/repository/{path}", body)
        for path, body in (
            ("models/steady/load", {"parameters": {"file:1/model.py": "eA=="}}),
            ("models/steady/load", {"parameters": {"config": 7}}),
            ("index", {"ready": "no"}),
        )
    ]
    read = {agents.get(f"/v2/repository/{path}").status for path in ("index", "models/steady/load")}

    assert [status for status, _ in found] == [400] * 3
    assert "files cannot be sent with a load" in found[0][1]["error"]
    assert read == {405}


@pytest.mark.parametrize("name", ["..", ".hidden", "..%2Fsteady", "x" * 300])
def test_names_do_not_lead_out_of_the_store(agents, store, name):
    write_model(store / ".hidden", 2)

    assert load(agents, name)[0] == 404


def test_calls_of_grpc_do_the_same(agents, store):
    grpc = pytest.importorskip("tritonclient.grpc")
    write_model(store / "double", 2)
    shown = agents.log.wait_for("output", subject="front-end")["message"]
    with grpc.InferenceServerClient(shown.removeprefix("gRPC at ")) as client:
        client.load_model("double")
        answer = predict(agents, "double")
        client.unload_model("double")
        gone = predict(agents, "double")

    assert (answer, gone) == (42, 404)


def test_a_source_is_for_those_who_may_manage_the_server(agents, tmp_path):
    place = write_model(tmp_path / "elsewhere", 2)
    token = {"Authorization": "Bearer manager"}
    refused = (
        load(agents, "double", place),
        load(agents, "double", place, Authorization="Bearer no"),
    )
    loaded = load(agents, "double", place, **token), predict(agents, "double")
    other = build_archive(write_model(tmp_path / "next", 3, "2.0"), tmp_path / "next.mar").path
    swapped = load(agents, "double", other, **token), predict(agents, "double")
    wrong = load(agents, "none", tmp_path / "nowhere", **token)

    assert [status for status, _ in refused] == [401, 401]
    assert loaded == ((200, None), 42)
    assert swapped == ((200, None), 63)
    assert wrong[0] == 422
    assert "nowhere" in wrong[1]["error"]


def test_predictions_go_on_while_models_come_and_go(agents, store):
    write_model(store / "guest", 2)
    statuses, over = [], threading.Event()

    def ask():
        while not over.is_set():
            statuses.append(predict(agents, "steady"))

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    rounds = []
    try:
        for _ in range(ROUNDS):
            loaded = load(agents, "guest")[0]
            answers = {predict(agents, "guest") for _ in range(6)}
            rounds.append((loaded, answers, unload(agents, "guest")[0]))
    finally:
        over.set()
        for client in clients:
            client.join(30)

    assert rounds == [(200, {42}, 200)] * ROUNDS
    assert set(statuses) == {21}
