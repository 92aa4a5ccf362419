# SPDX-License-Identifier: Apache-2.0
"""Servers that are measured only when asked for: LitServe, MLServer, gunicorn with Flask."""

import json
from pathlib import Path

from tests.benchmarks import environments
from tests.benchmarks.answers import Request, read_v2
from tests.benchmarks.cases import ARRAYS, MAX_JSON_BYTES, Case
from tests.benchmarks.encoding import CONTENT_TYPES, to_v2
from tests.benchmarks.environments import clean_environment
from tests.benchmarks.processes import ServerProcess, free_port
from tests.benchmarks.servers import ONE_THREAD, PEERS, Server, peer_settings, title_of


class LitServe(Server):
    """LitServe: FastAPI processes in front of one worker."""

    ready_path = "/health"

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self.key = f"litserve-{max_batch_size}"
        self.title = title_of("LitServe", max_batch_size)

    def install(self) -> None:
        self._bin = environments.virtual_environment("litserve", "litserve", "numpy", "msgpack")

    def version(self) -> str:
        return environments.version_of(self._bin / "python", "litserve")

    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        argv = [str(self._bin / "python"), str(PEERS / "litserve_server.py")]
        settings = peer_settings(case, self._max_batch_size) | {"BENCH_PORT": str(port)}
        return ServerProcess(argv, env=clean_environment(**settings), cwd=directory)


class MLServer(Server):
    """MLServer: FastAPI and the model in one process, the Open Inference Protocol."""

    ready_path = "/v2/health/ready"

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self.key = f"mlserver-{max_batch_size}"
        self.title = title_of("MLServer", max_batch_size)

    def install(self) -> None:
        self._bin = environments.virtual_environment("mlserver", "mlserver")

    def version(self) -> str:
        return environments.version_of(self._bin / "python", "mlserver")

    def refuses(self, case: Case) -> str | None:
        if case.size > MAX_JSON_BYTES and case not in ARRAYS:
            return "its HTTP takes JSON only, and this is too large for JSON"
        if case.model == "tensors" and case.form != "json":
            return "its HTTP takes JSON only"
        return super().refuses(case)

    def path(self, case: Case) -> str:
        return f"/v2/models/{case.model}/infer"

    def request(self, case: Case, seed: int = 0) -> Request:
        values = case.values(seed)
        return Request(
            path=self.path(case),
            content_type=CONTENT_TYPES["json"],
            body=to_v2(values),
            expected=case.expected(values),
            read=read_v2,
        )

    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        server = {"host": "127.0.0.1", "http_port": port, "grpc_port": free_port()}
        server |= {"metrics_port": free_port(), "parallel_workers": 0, "debug": False}
        server |= {"environments_dir": str(directory)}
        model: dict[str, object] = {
            "name": case.model,
            "implementation": "mlserver_runtime.Runtime",
        }
        if self._max_batch_size > 1:
            model |= {"max_batch_size": self._max_batch_size, "max_batch_time": 0.001}
        _write(directory / "settings.json", server)
        _write(directory / "model-settings.json", model)
        argv = [str(self._bin / "mlserver"), "start", str(directory)]
        env = clean_environment(PYTHONPATH=str(PEERS), **ONE_THREAD)
        return ServerProcess(argv, env=env, cwd=directory)


class Flask(Server):
    """gunicorn with its gevent worker and a bare Flask app that predicts in process."""

    key = "flask"
    title = "gunicorn + Flask"

    def install(self) -> None:
        requirements = ("gunicorn", "flask", "gevent", "numpy", "msgpack", "packaging")
        self._bin = environments.virtual_environment("flask", *requirements)

    def version(self) -> str:
        names = ("gunicorn", "flask")
        return " + ".join(environments.version_of(self._bin / "python", name) for name in names)

    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        argv = [str(self._bin / "gunicorn"), "--worker-class=gevent", "--workers=1"]
        argv += [f"--bind=127.0.0.1:{port}", f"--pythonpath={PEERS}", "--log-level=warning"]
        argv += ["--keep-alive=75", "flask_app:app"]
        return ServerProcess(argv, env=clean_environment(**peer_settings(case)), cwd=directory)


def _write(file: Path, settings: dict[str, object]) -> None:
    file.write_text(json.dumps(settings), encoding="utf-8")
