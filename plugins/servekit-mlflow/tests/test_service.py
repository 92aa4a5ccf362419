# SPDX-License-Identifier: Apache-2.0
"""The service in this process: what is predicted together, and what happens if that fails."""

import json
import logging

import pytest

from servekit import Context, InputError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # MLflow's own
NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


@pytest.fixture
def load(models):
    """Return ``load(name, **options)``: the service with the model *name*."""
    from servekit_mlflow.service import MLflowService

    def loaded(name, max_batch_size=32, **options):
        service = MLflowService()
        service.load(
            Context(
                model=name, version="1", directory=models / name, replica=0, threads=1,
                max_batch_size=max_batch_size, options=options, logger=logging.getLogger(name),
            )
        )  # fmt: skip
        return service

    return loaded


def answers(service, *bodies):
    """Return status and JSON for *bodies*, which come together."""
    found = service.invocations(list(bodies))
    return [(each.status, json.loads(each.output)) for each in found]


def flowers(*rows):
    return {"dataframe_split": {"columns": NAMES, "data": rows}}


def rows_of(*texts):
    return {"dataframe_records": [{"number": 1.0, "text": text} for text in texts]}


def test_requests_are_predicted_together_and_one_that_fails_alone(load, monkeypatch):
    service, sizes = load("iris"), []
    predict = service._scorer.predict
    monkeypatch.setattr(
        service._scorer,
        "predict",
        lambda inputs, params: sizes.append(len(inputs[NAMES[0]])) or predict(inputs, params),
    )
    setosa, virginica = [5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]

    assert answers(service, flowers(setosa), flowers(virginica, setosa)) == [
        (200, {"predictions": [0]}),
        (200, {"predictions": [2, 0]}),
    ]
    assert sizes == [3]

    found = answers(service, flowers(setosa), flowers([None, 1, 1, 1]), flowers(virginica))

    assert [status for status, _ in found] == [200, 400, 200]
    assert found[2][1] == {"predictions": [2]}


def test_no_more_rows_than_a_batch_are_joined(load, monkeypatch):
    service, sizes = load("iris", max_batch_size=4), []
    predict = service._scorer.predict
    monkeypatch.setattr(
        service._scorer,
        "predict",
        lambda inputs, params: sizes.append(len(inputs[NAMES[0]])) or predict(inputs, params),
    )
    three, six = flowers(*[[1, 1, 1, 1]] * 3), flowers(*[[1, 1, 1, 1]] * 6)
    found = answers(service, three, three, six)

    assert [len(said["predictions"]) for _, said in found] == [3, 3, 6]
    assert sorted(sizes) == [3, 3, 6]


@pytest.mark.parametrize(("options", "expected"), [({}, [1, 1]), ({"join": True}, [2, 2])])
def test_rows_of_a_model_of_ones_own_are_joined_only_if_one_says_so(load, options, expected):
    found = answers(load("odd", **options), rows_of("rows"), rows_of("rows"))

    assert [said["predictions"] for _, said in found] == [[each] for each in expected]


def test_a_row_that_is_refused_on_the_own_route_does_not_affect_the_others(load):
    import numpy as np

    service = load("odd", join=True)
    found = service.predict(
        {"number": np.array([1.0, 2.0]), "text": np.array(["a", "raise"], object)}
    )

    assert found[0] == 1.0
    assert isinstance(found[1], InputError)


def test_a_body_that_nests_too_deep_fails_alone(load):
    from servekit_mlflow.envelope import Invocation

    bodies = [json.dumps(flowers([5.1, 3.5, 1.4, 0.2])), '{"inputs": ' + "[" * 100_000]
    answered, refused = load("iris").invocations(
        [Invocation("application/json", body) for body in bodies]
    )

    assert (answered.status, json.loads(answered.output)) == (200, {"predictions": [0]})
    assert refused.status >= 400
