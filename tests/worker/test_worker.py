# SPDX-License-Identifier: Apache-2.0
"""A real worker process, from ``Launch`` to its end."""

from servekit.messages import Hello, Ready
from tests.worker.process import item


def test_a_worker_boots_answers_a_batch_and_leaves_when_told(start):
    worker = start("echo:Sum")
    assert isinstance(worker.receive(), Ready)
    channel = worker.connect()

    assert channel.hello == Hello(7)
    assert channel.predict(item({"x": [1, 2]})) == [("application/json", b'{"prediction":3}')]
    assert worker.stop() == 0
