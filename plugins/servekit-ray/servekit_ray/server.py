# SPDX-License-Identifier: Apache-2.0
"""The actor that runs one server: a whole ``servekit start`` as its child.

The kernel kills the server when the actor's process ends, in whichever way, so a node that loses
its Ray daemon keeps no server that nobody looks after.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from servekit import LocalServer, serve
from servekit.errors import StartupError
from servekit_ray.shipping import ArchiveDirectory, get_chunks, put_chunks
from servekit_ray.state import ServerOrder, ShippedModel

__all__ = ["ServerActor"]

DRAIN_DELAY_S: Final = 3  #: clients look for servers every second
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"


class ServerActor:
    """Runs in: an actor with several threads, on the node of its server."""

    def __init__(self) -> None:
        """Start nothing yet: ``start`` may take long."""
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT)
        self._archives = ArchiveDirectory()
        self._server: LocalServer | None = None
        self._models: dict[str, ShippedModel] = {}

    def node(self) -> str:
        """Return the id of the Ray node. That this answers says that Ray has placed the actor."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def start(self, order: ServerOrder, chunks: Mapping[str, list[Any]]) -> tuple[str, int]:
        """Start the server, and return its URL and its process id once it serves.

        :param chunks: by digest, references to the chunks of the archives.
        :raises StartupError: a model cannot be loaded, or an archive has changed on its way.
        """
        import ray

        os.environ.update(environment(order))
        models = {
            name: self._path(model, chunks.get(model.digest, ()))
            for name, model in order.models.items()
        }
        self._server = serve(
            models,
            block=False,
            strict=True,
            host=ray.util.get_node_ip_address(),
            port=order.port,
            **flags(order),
        )
        self._models = dict(order.models)
        return self._server.url, self._server.pid

    def describe(self) -> tuple[str, int, dict[str, ShippedModel]]:
        """Return URL, process id and models; the URL is "" if it does not serve yet."""
        if self._server is None:
            return "", 0, {}
        return self._server.url, self._server.pid, self._models

    def swap(self, name: str, model: ShippedModel, chunks: list[Any], watch_s: float) -> str:
        """Replace the version of a model. Return "", or why what served before still does."""
        try:
            path = self._path(model, chunks)
        except StartupError as error:
            return str(error)
        problem = self._ask("swap", name, path, "--watch", str(watch_s))
        if not problem:
            self._models[name] = model
        return problem

    def rollback(self, name: str, model: ShippedModel) -> str:
        """Return to *model*, which served before the last swap. Return "", or what went wrong."""
        problem = self._ask("rollback", name)
        if not problem:
            self._models[name] = model
        return problem

    def read_archive(self, model: ShippedModel) -> list[Any] | None:
        """Return references to the chunks of an archive, for a controller that has lost it."""
        path = self._archives.find(model)
        return put_chunks(path) if path else None

    def stop(self) -> None:
        """Finish the requests in flight, and stop the server."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
        self._archives.remove()

    def _path(self, model: ShippedModel, chunks: Any) -> str:
        if model.url:
            return model.url
        found = self._archives.find(model)
        return str(found or self._archives.receive(model, get_chunks(chunks)))

    def _ask(self, command: str, *arguments: str) -> str:
        """Run a command of operators for the server. Return "", or the error that it printed."""
        if self._server is None:
            return "the server has stopped"
        whole = [sys.executable, "-P", "-m", "servekit", command, *arguments]
        done = subprocess.run(
            [*whole, "--json", "--pid", str(self._server.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return "" if done.returncode == 0 else problem_in(done.stdout, done.stderr)


def flags(order: ServerOrder) -> dict[str, Any]:
    """Return the options of a server that were given; what is left out may be a variable."""
    given = {"replicas": order.replicas, "set": list(order.settings)}
    return {name: value for name, value in given.items() if value}


def environment(order: ServerOrder) -> dict[str, str]:
    """Return the variables of a server; those of *order* win.

    Ray sets OMP_NUM_THREADS to the CPUs of the whole actor, which its workers share.
    """
    return {
        "SERVEKIT_DRAIN_DELAY": str(DRAIN_DELAY_S),
        "OMP_NUM_THREADS": str(max(1, int(order.cpus) // max(1, order.workers))),
        **order.env,
    }


def problem_in(output: str, errors: str) -> str:
    """Return why a command failed: from its JSON, or else its last line."""
    try:
        operation = json.loads(output)
    except ValueError:
        operation = {}
    lines = errors.strip().splitlines()
    problem = str(operation.get("error") or (lines[-1] if lines else "the command failed"))
    return problem.replace("see the log above", "see the log of the server")
