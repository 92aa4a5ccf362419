# SPDX-License-Identifier: Apache-2.0
"""What is public is named in ``__all__``, and every error has a status and a place in the tree."""

import inspect

import pytest

import servekit
from servekit import errors

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value)]
CLASSES = [value for value in CLASSES if issubclass(value, errors.ServekitError)]


def test_everything_servekit_exports_is_there():
    assert [name for name in servekit.__all__ if not hasattr(servekit, name)] == []


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_error_is_exported_and_drawn_in_the_tree(kind):
    assert kind.__name__ in errors.__all__
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__doc__


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_error_survives_the_channel_as_its_name(kind):
    assert errors.error_class(kind.__name__) is kind


@pytest.mark.parametrize("name", ["", "int", "error_class", "NoSuchError"])
def test_unknown_error_name_is_a_failed_prediction(name):
    assert errors.error_class(name) is errors.PredictFailed


def test_problem_of_an_internal_error_tells_no_detail():
    members = errors.problem(errors.PredictFailed, "id-1", "secret", ["secret"])

    assert members == {
        "type": "about:blank", "title": "Prediction failed", "status": 500, "request_id": "id-1",
    }  # fmt: skip
