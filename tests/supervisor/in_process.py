# SPDX-License-Identifier: Apache-2.0
"""The models and operations of a supervisor, without processes.

Prepare children and workers are fakes. A source is a path ``/NAME-VERSION`` and what its workers
do, after a colon: ``/digits-2.0:crash``.
"""

from collections import Counter
from itertools import count
from types import SimpleNamespace

import msgspec

from servekit.ipc.control import Ready
from servekit.ipc.model_counters import DURATIONS, VersionCounts
from servekit.ipc.operations import Operate
from servekit.ipc.table import Interface, SettingRow
from servekit.ipc.tally import Tally
from servekit.settings import Settings
from servekit.settings.models import ModelSource
from servekit.supervisor.models import loader
from servekit.supervisor.models.registry import ModelRegistry
from servekit.supervisor.models.saved_models import lay_over
from servekit.supervisor.operations import server as operations_server
from servekit.supervisor.operations.operations import Operations
from servekit.supervisor.operations.server import OperatedServer
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.preparing.messages import PreparedModel, PreparedStage, PrepareOutcome
from servekit.supervisor.replicas import ranks
from servekit.supervisor.replicas.worker import Exit

WAIT_S = 60.0
LATER_S = 0.05
PIDS = count(100_000)


class FakePrepareChild:
    """Makes a model of the path, as the prepare child does of an archive."""

    def __init__(self, loop, request, timeout_s, on_line, on_outcome):
        self.pid = next(PIDS)
        self._request, self._on_outcome = request, on_outcome
        loop.call_later(0, self._end)

    def kill(self, reason="stopped"):
        self._request = None

    def _end(self):
        if self._request is None:
            return self._on_outcome(PrepareOutcome(error="stopped"))
        name, _, rest = self._request.path.strip("/").partition("-")
        version, _, act = rest.partition(":")
        digests = [each.sha256 for each in self._request.deployments if each.sha256]
        if act == "broken" or digests not in ([], [version]):
            return self._on_outcome(PrepareOutcome(error="wrong SHA-256"))
        model = prepared(self._request.name or name, version, act)
        for each in self._request.deployments:
            model.on_demand = model.on_demand or each.replicas == 0
            model.idle_s = each.idle_s or model.idle_s
            model.stages[0].preload = bool(each.preload) or model.stages[0].preload
            if each.replicas:
                model.stages[0].replicas = each.replicas
                model.settings = [SettingRow("replicas", each.replicas, each.source)]
        return self._on_outcome(PrepareOutcome(model=model))


def prepared(name, version, act):
    stage = PreparedStage(
        name="",
        manifest=msgspec.json.encode({"act": act}),
        replicas=1,
        max_batch_size=1,
        max_delay_s=0.0,
        predict_timeout_s=1.0,
        load_timeout_s=1.0,
        environments=[{}],
    )
    return PreparedModel(
        name=name,
        version=version,
        description="",
        source="/",
        directory="/",
        python="python",
        manifest=b"{}",
        stages=[stage],
        may_retry=False,
        size_bytes=0,
        digest=f"{version}{act}",
        settings=[SettingRow("replicas", 1, "default")],
    )


class FakeWorker:
    """Gets ready in the next turn, or does what its model says."""

    def __init__(self, loop, command, listener, launch, *, on_line, on_ready, on_exit):
        self._act = msgspec.json.decode(launch.manifest)["act"]
        self._loop, self._on_ready, self._on_exit = loop, on_ready, on_exit
        self.process = SimpleNamespace(pid=next(PIDS))
        self._is_gone = self._is_ready = False
        loop.call_later(LATER_S if self._act == "slow" else 0, self._boot)

    def _boot(self):
        if self._act == "crash":
            return self._end(7)
        if not self._is_gone:
            self._is_ready = True
            self._on_ready(Ready(Interface(), 0.01))
        if self._act == "crash later":
            self._loop.call_later(LATER_S, lambda: self._end(9))
        return None

    def leave(self):
        self._loop.call_later(0, lambda: self._end(0))

    retire = leave

    def kill(self, reason):
        self._loop.call_later(0, lambda: self._end(-9))

    def _end(self, exit_code):
        if self._is_gone:
            return
        self._is_gone = True
        self._on_exit(
            Exit(
                pid=self.process.pid,
                exit_code=exit_code,
                reason="",
                served_s=1.0 if self._is_ready else None,
                lived_s=1.0,
                cause="exited",
                is_killed=exit_code == -9,
            )
        )


class FakeReporter:
    """Keeps what is reported."""

    def __init__(self):
        self.tally, self.notices, self.events = Tally(), [], []
        self.notice = self.notices.append
        self.event = self.events.append

    def progress(self, *_):
        pass

    worker_ready = worker_exited = line = model_failed = progress


class InProcess:
    """A server that is operated in this process."""

    def __init__(self, monkeypatch, run_dir, *paths, settings=None, saved=()):
        monkeypatch.setattr(loader, "PrepareChild", FakePrepareChild)
        monkeypatch.setattr(ranks, "Worker", FakeWorker)
        monkeypatch.setattr(operations_server.Path, "exists", lambda path: path.name != "none.mar")
        self.counts = Counter()  #: responses by version and status
        self.available = None
        self.saves = 0
        self.loop, self.reporter = Loop(), FakeReporter()
        sources = [ModelSource(path, path[1:].partition("-")[0]) for path in paths]
        self.registry = ModelRegistry(
            self.loop,
            settings or Settings(),
            sources,
            lay_over(sources, saved),
            run_dir,
            self.reporter,
            lambda: None,
            print,
        )
        server = OperatedServer(self.registry, self.loop, self._read, lambda: self.available)
        self._operations = Operations(server, lambda: True, lambda: None, self._save, self._spread)
        self._ids = count()
        self.registry.load_all()
        self.until(lambda: all(model.is_loaded for model in self.registry))

    def close(self):
        """Close every socket."""
        for model in self.registry:
            for version in model.versions:
                version.close()

    async def _spread(self):
        """There are no front-ends."""

    def _save(self):
        self.saves += 1

    def _read(self, _model, version):
        statuses = {status: n for (each, status), n in self.counts.items() if each == version}
        return VersionCounts(statuses, [0] * (len(DURATIONS) + 1), 0, 0)

    def until(self, holds):
        """Run until *holds*."""
        late = self.loop.call_later(WAIT_S, self.loop.stop)

        def look():
            if holds():
                self.loop.stop()
            else:
                self.loop.call_later(0.001, look)

        self.loop.call_later(0, look)
        self.loop.run()
        late.cancel()
        assert holds(), f"not after {WAIT_S} s: {self._operations.rows}"

    def begin(self, operation):
        """Begin *operation*, and return its row."""
        id_ = f"o{next(self._ids)}"
        self._operations.begin(Operate(id_, operation))
        return self._operations.rows[-1]

    def do(self, operation):
        """Carry out *operation*, and return its row."""
        row = self.begin(operation)
        self.until(lambda: row.state != "running")
        return row

    @property
    def rows(self):
        """Return the rows of operations."""
        return self._operations.rows

    @property
    def models(self):
        """Return the rows of the routing table, by name."""
        return {row.name: row for row in self.registry.rows()}

    @property
    def digits(self):
        return self.models["digits"]
