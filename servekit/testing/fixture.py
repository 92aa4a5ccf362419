# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: the fixture ``serve_model``. Light, since every run of pytest imports it."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servekit.testing.server import ServedModel

__all__ = ["serve_model"]


@pytest.fixture
def serve_model() -> "Iterator[Callable[..., ServedModel]]":
    """Serve models for one test: ``serve_model(directory, replicas=2)`` returns when it answers.

    All are stopped at the end of the test; what they said is shown if it fails.
    """
    from servekit.testing.server import ServedModel

    started: list[ServedModel] = []

    def serve(directory: object, **settings: Any) -> ServedModel:
        served = ServedModel(str(directory), **settings)
        started.append(served)
        return served.wait_ready()

    yield serve
    for served in started:
        served.stop()
        print(served.log.text)  # pytest shows it below a test that failed
