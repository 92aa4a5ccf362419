# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the worker's tests."""

import pytest

from tests.worker.worker_process import Worker


@pytest.fixture
def start(tmp_path):
    """Start workers that end with the test."""
    started = []

    def start_worker(service, **keys):
        started.append(Worker(tmp_path, service, **keys))
        return started[-1]

    yield start_worker
    for worker in started:
        worker.end()
