# SPDX-License-Identifier: Apache-2.0
"""The log of a failed service: what happened, its author's line, no frames of servekit."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest

import servekit
from servekit import Done, Response, Service, endpoint
from servekit.worker.process import log
from tests.worker.batches import answer, echo, loaded, service_of
from tests.worker.worker_process import item

OURS = str(Path(servekit.__file__).parent) + os.sep
HERE = "test_failures.py"


def line_of(function) -> str:
    return f"({HERE}:{function.__code__.co_firstlineno})"


def too_few(self, batch):
    return []


def too_many(self, batch):
    return batch * 2


def not_a_list(self, batch):
    return tuple(batch)


def nothing(self, batch):
    pass


@pytest.mark.parametrize(
    ("predict", "said"),
    [
        (too_few, "returned 0 outputs for 1 input"),
        (too_many, "returned 2 outputs for 1 input"),
        (not_a_list, "returned a tuple, expected a list of 1"),
        (nothing, "returned None, expected a list of 1"),
    ],
)
@pytest.mark.parametrize("method", ["", "other"])
def test_a_wrong_number_of_outputs_is_told_with_the_authors_line_and_no_traceback(
    capfd, predict, said, method
):
    service = service_of(echo, other=endpoint("other")(predict)) if method else service_of(predict)
    loaded(service).methods.predictor(method).answer([item(1, request_id="r-1")])

    assert capfd.readouterr().err == (
        f"Made.{predict.__name__} {said} {line_of(predict)} for 1 request(s): r-1\n"
    )


class Inner(msgspec.Struct):
    score: object


@dataclass
class Outer:
    inner: list[Inner]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({(1, 2): "a"}, "output: a key is a tuple, (1, 2)"),
        ({"a": [1, {None: 2}]}, "output.a[1]: a key is a NoneType, None"),
        ({"a": {"b": [1, 2j]}}, "output.a.b[1]: a complex is not JSON"),
        (Outer([Inner(1), Inner(Outer)]), "output.inner[1].score: "),
        ([1, {2: object()}], "output[1].2: a object is not JSON"),
        ({"x": [0.5, float("nan")]}, "output.x[1]: NaN or infinity is not JSON"),
        (np.array([1.0, np.inf]), "output: NaN or infinity is not JSON"),
        (3j, "output: a complex is not JSON"),
        (Response({"a": 1}, content_type="text/csv"), "output: dict, expected bytes or str"),
    ],
)  # fmt: skip
def test_an_output_that_is_not_json_is_told_by_its_place(capfd, output, said):
    def predict(self, batch):
        return [output]

    assert answer(service_of(predict), 1)[0] == "ResultNotEncodable"
    told = capfd.readouterr().err
    assert told.startswith(f"the output of Made.predict cannot be written: {said}")
    assert line_of(predict) in told
    assert "Traceback" not in told
    assert OURS not in told


def test_an_output_that_holds_itself_is_told(capfd):
    output: list = []
    output.append(output)

    def predict(self, batch):
        return [output]

    answer(service_of(predict), 1)

    assert "output: contains itself, or is nested too deep" in capfd.readouterr().err


def test_the_output_of_a_postprocess_is_its_own(capfd):
    def postprocess(self, output):
        return {1, (2, 3j)}

    answer(service_of(echo, postprocess=postprocess), 1)

    said = capfd.readouterr().err
    assert said.startswith("the output of Made.postprocess cannot be written: output[")
    assert line_of(postprocess) in said


def test_steps_that_return_too_few_are_told_with_their_line(capfd):
    def step(self, slots):
        return []

    service = type("Made", (Service,), {"admit": lambda self, value: value, "step": step})()
    answer(service, 1)

    said = capfd.readouterr().err
    assert said.startswith(f"Made.step returned 0, expected a list of 1 {line_of(step)}")


def broken(_value):
    raise LookupError("no weights")


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"predict": lambda self, batch: broken(batch)}, "predict"),
        ({"predict": echo, "preprocess": lambda self, request: broken(request)}, "preprocess"),
        ({"predict": echo, "postprocess": lambda self, output: broken(output)}, "postprocess"),
        (
            {"admit": lambda self, value: value, "step": lambda self, slots: broken(slots)},
            "predict",
        ),
    ],
    ids=["predict", "preprocess", "postprocess", "step"],
)
def test_what_the_authors_code_raises_has_a_traceback_of_nothing_else(capfd, members, where):
    answer(type("Made", (Service,), members)(), 1)
    said = capfd.readouterr().err

    assert said.startswith(f"{where} failed for 1 request(s): ")
    assert said.endswith("LookupError: no weights\n")
    assert re.findall(r'File "(.*)"', said) == [__file__] * 2
    assert OURS not in said


def test_what_led_to_an_error_of_the_author_has_no_frames_of_ours_either(capfd):
    def predict(self, batch):
        try:
            Response(1, status=7)
        except ValueError as error:
            raise LookupError("no weights") from error

    answer(service_of(predict), 1)
    said = capfd.readouterr().err

    assert said.count("Traceback") == 2
    assert OURS not in said


def test_an_error_of_ours_alone_keeps_its_traceback(capfd, monkeypatch):
    service = service_of(echo)
    predictor = loaded(service).predictor
    monkeypatch.setattr(predictor, "kind", None)
    predictor.answer([item(1)])

    assert OURS in capfd.readouterr().err


@pytest.fixture
def as_json(monkeypatch):
    monkeypatch.setattr(log, "_is_json", True)


def test_a_failure_is_one_record_where_the_log_is_json(capfd, as_json):
    def predict(self, batch):
        broken(batch)

    answer(service_of(predict), 1)
    record = json.loads(capfd.readouterr().err)

    assert (record["level"], record["message"]) == ("error", "predict failed")
    assert record["request_ids"]
    assert record["traceback"].endswith("LookupError: no weights\n")


@pytest.mark.parametrize("text", ["x" * 100_000, "\x00\ud800é" * 5_000])
def test_a_record_is_never_longer_than_a_line_may_be(capfd, as_json, text):
    def predict(self, batch):
        raise LookupError(text)

    ids = ["r" * 128] * 100
    loaded(service_of(predict)).predictor.answer([item(1, request_id=each) for each in ids])
    said = capfd.readouterr().err

    assert len(said) <= 4096
    assert json.loads(said)["message"] == "predict failed"


def test_a_stream_that_ends_in_what_cannot_be_written_is_told(capfd):
    def step(self, slots):
        return [Done(3j) for _ in slots]

    service = type("Made", (Service,), {"admit": lambda self, value: value, "step": step})()
    answer(service, 1)

    assert f"cannot be written: output[0]: a complex is not JSON {line_of(step)}" in (
        capfd.readouterr().err
    )
