# SPDX-License-Identifier: Apache-2.0
"""Calls of management while others change the models, with a server that only stands in."""

import pytest
from servekit_torchserve.management.errors import AlreadyRegistered
from servekit_torchserve.management.operations import ManagementOperations
from servekit_torchserve.management.parameters import Parameters
from servekit_torchserve.management.upstream import UpstreamError

MODEL = {"name": "one", "version": "1.0"}
ROW = {"model": "one", "state": "done", "version": "1.0"}


class FakeUpstream:
    """Answers by a table; a value that is an exception is raised, and a list is taken in turn."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def ask(self, method, target, _value=None):
        path = target.partition("?")[0]
        self.asked.append(f"{method} {path}")
        answer = self.answers[f"{method} {path}"]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def operations(**answers):
    upstream = FakeUpstream(**answers)
    return ManagementOperations(upstream, None, is_model_api_on=True), upstream


def busy():
    return UpstreamError(409, {"detail": "one is busy: scale; try again later"})


def test_a_model_that_leaves_while_it_is_listed_is_left_out():
    listed, _ = operations(
        **{
            "GET /models": {"models": [{"name": "one"}, {"name": "two"}]},
            "GET /models/one": MODEL,
            "GET /models/two": UpstreamError(404, {"detail": "gone"}),
        }
    )

    models = listed.list_models(Parameters({}))["models"]
    assert [each["modelName"] for each in models] == ["one"]


def test_a_change_waits_for_the_one_before_it():
    running = {"operations": [{"model": "one", "state": "running"}]}
    waiting, upstream = operations(
        **{
            "GET /models/one": MODEL,
            "DELETE /models/one": [busy(), busy(), ROW],
            "GET /operations": [running, running],
        }
    )

    assert waiting.unregister("one").text == 'Model "one" unregistered'
    assert upstream.asked.count("DELETE /models/one") == 3


def test_a_conflict_that_lasts_is_an_error():
    refused, _ = operations(
        **{
            "GET /models/one": MODEL,
            "DELETE /models/one": [busy(), busy()],
            "GET /operations": {"operations": []},
        }
    )

    with pytest.raises(AlreadyRegistered, match="one is busy"):
        refused.unregister("one")
