# SPDX-License-Identifier: Apache-2.0
"""What takes of the rate of a key: predictions by any method, and not the reading of jobs."""

import importlib

import pytest

from servekit.hookspecs import PredictionRequest


@pytest.mark.parametrize("method", ["POST", "PUT", "GET"])
@pytest.mark.parametrize("is_prediction", [True, False])
def test_predictions_count_by_any_method(monkeypatch, method, is_prediction):
    monkeypatch.setenv("APIKEYS_FILE", "/keys.toml")
    hooks = importlib.reload(importlib.import_module("servekit_apikeys.hooks"))
    counted = []

    class Ring:
        def judge(self, _key, _model, *, is_counted):
            counted.append(is_counted)

    monkeypatch.setattr(hooks, "_keyring", Ring)
    hooks.authorize(
        PredictionRequest(
            model="m", method=method, headers={}, peer="", is_prediction=is_prediction
        )
    )

    assert counted == [is_prediction]
