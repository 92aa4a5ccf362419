# SPDX-License-Identifier: Apache-2.0
"""The routing of a front-end without a process: tables by hand, workers that a test answers for."""

from types import SimpleNamespace

from servekit.extension import BaseExchange, HttpRequest, HttpResponse
from servekit.frontend.batching.batch_slot import answer_batch
from servekit.frontend.batching.environment import BatchingEnvironment
from servekit.frontend.memory.pressure import Pressure, QueueMemory
from servekit.frontend.routing.indirect import start
from servekit.frontend.routing.router import Router
from servekit.frontend.routing.table import Routing
from servekit.ipc.batches import Reply
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.table import ModelRow, ReplicaRow, Table

LARGE = 4096


class Loop:
    """Runs what is deferred when it is told to."""

    def __init__(self):
        self.deferred = []

    def run_callback(self, function, *arguments):
        self.deferred.append((function, arguments))

    def run(self):
        while self.deferred:
            function, arguments = self.deferred.pop(0)
            function(*arguments)

    def timer(self, *_arguments):
        return SimpleNamespace(start=lambda *_: None, stop=lambda: None)


class Client(BaseExchange):
    """Keeps its response."""

    is_encrypted, subject = False, ""

    def __init__(self):
        super().__init__(("192.0.2.7", 5))
        self.response = None

    def send(self, response: HttpResponse) -> None:
        assert self.response is None, "answered twice"
        self.response = response
        self.observe_end(response.status, len(response.body))


class Worker:
    """Takes tasks of one batcher."""

    def __init__(self, batcher):
        self.batcher, self.tasks = batcher, []
        self.answered = 0
        batcher.feed.add(self)

    def send(self, tasks, _now):
        self.tasks += tasks
        self.batcher.feed.add_last(self)
        return []

    def answer(self, body=b"", error="", media_type="application/json"):
        """Answer all that it has."""
        tasks, self.tasks = self.tasks, []
        self.answered += len(tasks)
        answers = [(error, media_type, body or b"by " + self.version)] * len(tasks)
        if tasks:
            answer_batch(tasks, Reply(1, answers, 0.0, 0.0, 0.0), 0.0, 1.0, None)

    @property
    def version(self):
        return self.batcher.row.version.encode()


class Routed:
    """A ``Routing``, and a worker for each of its batchers."""

    def __init__(self):
        self.counters = Counters(create_memory())
        self.loop, self.workers = Loop(), {}
        environment = BatchingEnvironment(
            loop=self.loop, pressure=Pressure(0, 5.0), queue_memory=QueueMemory(2**20),
            report=None, begin_call=None, front_ends=1, arena_bytes=2**20, large_body_bytes=LARGE,
        )  # fmt: skip
        share = self.counters.share(self.counters.give())
        self.routing = Routing(environment, share, Router())

    def publish(self, *rows):
        self.routing.update(Table(list(rows)))
        for batcher in self.routing.batchers:
            if batcher not in self.workers:
                self.workers[batcher] = Worker(batcher)

    def find(self, path):
        return self.routing.router.find(b"POST", path.encode(), {})

    def begin(self, path, body=b"1", **headers):
        """Begin a request as a dispatcher does; return its exchange."""
        route = self.find(path)
        fields = {name.replace("_", "-").encode(): each for name, each in headers.items()}
        request = HttpRequest(b"POST", path.encode(), fields, b"", True, "1.1", request_id="r")
        request.route, request.body = route, route.bodies.lay([body])
        exchange = Client()
        exchange.model_version = route.version
        start(route, exchange, request)
        return exchange

    def answer(self, **how):
        """Have all workers answer, and what follows from that."""
        self.loop.run()
        for worker in self.workers.values():
            worker.answer(**how)
        self.loop.run()

    def ask(self, path, body=b"1", **headers):
        """Return the version that a response names, and its status; its body agrees."""
        exchange = self.begin(path, body, **headers)
        self.answer()
        response = exchange.response
        if response.status == 200:
            assert bytes(response.body) == b"by " + response.model_version
        return response.model_version.decode(), response.status


def version_row(version, replica=0, *, state="serving", **more):
    """Return the row of the version of a model called ``m``."""
    replicas = [ReplicaRow(replica, 1, "/nobody", state)]
    return ModelRow("m", version, "", replicas, 8, 0.0, 9e9, 16, **more)
