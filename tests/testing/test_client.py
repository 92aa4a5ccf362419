# SPDX-License-Identifier: Apache-2.0
"""The client without sockets answers as a server would."""

import asyncio

import numpy as np
import pytest

from servekit import Context, InputError, Service
from servekit.errors import BootError, CallError, PredictFailed
from servekit.testing import ServiceClient


class Echo(Service):
    """Answers what came, and what it was loaded with."""

    def load(self, context: Context) -> None:
        self.context = context
        self.is_closed = False

    def predict(self, batch):
        return [self.answer(x) for x in batch]

    def answer(self, x):
        if isinstance(x, str) and x == "fail":
            raise ZeroDivisionError
        return InputError("no") if isinstance(x, str) and x == "no" else x

    def close(self):
        self.is_closed = True


class Rows(Service):
    """Adds up rows."""

    def predict(self, batch):
        return batch["x"].sum(axis=1)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "model.toml").write_text(
        'name = "rows"\nservice = "rows:Rows"\n'
        "[batching]\nmax_batch_size = 4\n[options]\na = 1\n"
        '[signature]\ninputs = [{ name = "x", dtype = "float32", shape = [2] }]\n'
        "[[examples]]\ninput = [1, 2]\noutput = 4\n"
    )
    (tmp_path / "rows.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"a": [1, None]}, {"a": [1, None]}, id="JSON"),
        pytest.param(b"\x00\x01", b"\x00\x01", id="bytes as they are"),
        pytest.param(np.arange(3), [0, 1, 2], id="an array, and its JSON"),
    ],
)
def test_values_go_there_and_back(tmp_path, value, expected):
    assert ServiceClient(Echo, tmp_path).predict([value]) == [expected]


def test_a_refused_input_leaves_its_error_in_its_place(tmp_path):
    good, refused = ServiceClient(Echo, tmp_path).predict([1, "no"])

    assert good == 1
    assert (type(refused), str(refused)) == (InputError, "no")


def test_a_batch_that_raises_fails_as_a_whole(tmp_path, capfd):
    found = ServiceClient(Echo, tmp_path).predict([1, "fail"])

    assert [type(error) for error in found] == [PredictFailed, PredictFailed]
    assert "ZeroDivisionError" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("body", "content_type", "status", "title"),
    [
        pytest.param(b"{", "application/json", 400, "Malformed body", id="malformed"),
        pytest.param(b"1", "text/html", 415, "Unsupported media type", id="media type"),
        pytest.param(b'"no"', "application/json", 422, "Input refused", id="refused"),
        pytest.param(b'"fail"', "application/json", 500, "Prediction failed", id="failed"),
    ],
)
def test_statuses_are_those_of_the_server(tmp_path, body, content_type, status, title):
    answer = ServiceClient(Echo, tmp_path).post(body, content_type)

    assert (answer.status, answer.json()["title"]) == (status, title)
    with pytest.raises(AssertionError, match=f"{status}: .*{title}"):
        _ = answer.prediction


def test_model_toml_counts(directory):
    client = ServiceClient(Rows, directory)
    (refused,) = client.predict([[1, 2, 3]])

    assert client.predict([[1, 2], np.array([3, 4])]) == [3.0, 7.0]
    assert refused.detail == "x: shape [3], expected [2]"


def test_responses_are_written_as_model_toml_says(directory):
    toml = directory / "model.toml"
    toml.write_text(f'envelope = false\nmedia_type = "application/json"\n{toml.read_text()}')
    client = ServiceClient(Rows, directory)

    assert client.post(b"[1, 2]").json() == 3.0
    assert client.post(b"[1, 2]", "").body == b"3.0"


def test_examples_that_are_wrong_are_told(directory):
    with pytest.raises(BootError, match=r"example 1: output: 3.0, expected 4"):
        ServiceClient(Rows, directory).run_examples()


def test_options_and_assets_are_given_by_the_test(tmp_path):
    with ServiceClient(Echo, tmp_path, options={"b": 2}, assets={"w": "tiny.bin"}) as client:
        context = client.service.context
        with pytest.raises(BootError, match=r"\[assets.v\]: not in model.toml; known: w"):
            context.asset("v")

    assert (context.options, context.asset("w").name) == ({"b": 2}, "tiny.bin")
    assert client.service.is_closed


class Caller(Service):
    """Asks another model."""

    def load(self, context: Context) -> None:
        self.context = context

    def predict(self, batch):
        return [self.context.call("other", x) for x in batch]


class Prepared(Caller):
    """Answers for the other model where there is no server."""

    def stand_in(self, model, value):
        return [model, value]


def refuse(value):
    raise CallError("other", 422, f"{value} is odd")


def test_functions_answer_in_place_of_other_models(tmp_path):
    client = ServiceClient(Caller, tmp_path, calls={"other": lambda x: x + 1})

    assert client.predict([1, 2]) == [2, 3]


def test_an_error_of_another_model_fails_the_batch(tmp_path):
    (error,) = ServiceClient(Caller, tmp_path, calls={"other": refuse}).predict([1])

    assert isinstance(error, CallError)


def test_a_stand_in_of_the_service_answers_for_the_models_that_it_names(tmp_path):
    (tmp_path / "model.toml").write_text('name = "x"\nservice = "s:S"\ncalls = ["other"]\n')
    (tmp_path / "s.py").touch()
    (refused,) = ServiceClient(Caller, tmp_path).predict([1])

    assert ServiceClient(Prepared, tmp_path).predict([1]) == [["other", 1]]
    assert isinstance(refused, CallError)


def test_a_model_that_is_not_named_cannot_be_called(tmp_path, capfd):
    (error,) = ServiceClient(Prepared, tmp_path).predict([1])

    assert isinstance(error, CallError)
    assert "other answered 403: calls in model.toml does not name it" in capfd.readouterr().err


class Slow(Service):
    """Waits in coroutines."""

    async def load(self, context: Context) -> None:
        self.context, self.most = context, 0
        self.is_closed = False

    async def predict(self, value: int) -> list[int]:
        self.most += 1
        await asyncio.sleep(0.01)
        if value < 0:
            raise InputError("below 0")
        return [value, self.most, len(self.context.requests)]

    async def close(self):
        self.is_closed = True


def test_an_async_service_gets_its_batch_as_inputs_at_the_same_time(tmp_path):
    with ServiceClient(Slow, tmp_path) as client:
        first, refused, last = client.predict([1, -1, 3])
        alone = client.post(b"5")
        service = client.service

    assert (first, last) == ([1, 3, 1], [3, 3, 1])
    assert isinstance(refused, InputError)
    assert alone.json() == {"prediction": [5, 4, 1]}
    assert service.is_closed
