# SPDX-License-Identifier: Apache-2.0
"""Starts front-ends and workers by forking a process that has imported them already.

Importing them takes longer than most tests with one. What is forked runs the same ``main`` in a
process of its own; that ``python -m servekit.frontend`` and ``python -m servekit.worker`` lead
there is shown by the tests that start a server.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from select import poll

MAX_REQUEST_BYTES = 64 * 1024
MAX_DESCRIPTORS = 8
#: by the module whose ``main`` is run, what it imports when it has begun
IMPORTS = {
    "servekit.frontend": ["gunicorn.glogging"],
    "servekit.worker": [
        "asyncio",
        "numpy",
        "servekit.worker.boot.loading",
        "servekit.worker.serving.async_server",
        "servekit.worker.serving.stream_server",
    ],
}


class ForkServer:
    """The process that forks, seen from the tests. It ends with them."""

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, module, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment,  # plugins there are those of one test
            )
        self._socket = ours

    def start(self, arguments, descriptors, output, directory=None) -> "ForkedProcess":
        """Run the module with *arguments*, and with an option for each descriptor.

        :param descriptors: option to descriptor.
        :param output: an open file for all that it prints.
        :param directory: where it runs; ``None`` is here.
        """
        environment, directory = dict(os.environ), str(directory or Path.cwd())
        request = [arguments, list(descriptors), environment, directory]
        files = [*descriptors.values(), output]
        numbers = [each if isinstance(each, int) else each.fileno() for each in files]
        socket.send_fds(self._socket, [json.dumps(request).encode()], numbers)
        return ForkedProcess(self._reply(), self._wait)

    def _wait(self, pid: int) -> int:
        self._socket.send(json.dumps(pid).encode())
        return self._reply()

    def _reply(self) -> int:
        return json.loads(self._socket.recv(100))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def fork_server(module: str) -> ForkServer:
    """Return that of this process for *module*."""
    server = ForkServer(module)
    atexit.register(server.close)
    return server


class ForkedProcess:
    """As ``subprocess.Popen``, of a process whose parent is the fork server."""

    def __init__(self, pid, wait) -> None:
        self.pid, self.returncode, self._wait = pid, None, wait
        self._pidfd = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return self._end_within(0)

    def wait(self, timeout: float) -> int:
        if self._end_within(timeout) is None:
            raise subprocess.TimeoutExpired("a forked process", timeout)
        return self.returncode

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def _end_within(self, timeout_s: float) -> int | None:
        if self.returncode is None:
            ended = poll()
            ended.register(self._pidfd)
            if ended.poll(timeout_s * 1000):
                os.close(self._pidfd)
                self.returncode = self._wait(self.pid)
        return self.returncode


def serve(requests: socket.socket) -> None:
    """Fork processes, and say how they ended, until the tests end."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, MAX_DESCRIPTORS)
        if not message:
            return
        request = json.loads(message)
        if isinstance(request, int):
            reply = os.waitstatus_to_exitcode(os.waitpid(request, 0)[1])
        else:
            reply = fork(requests, request, descriptors)
            for number in descriptors:
                os.close(number)
        requests.send(json.dumps(reply).encode())


def fork(requests: socket.socket, request: list, descriptors: list[int]) -> int:
    """Return the pid of a new process."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        requests.close()
        status = run(parent, request, descriptors)
    finally:
        leave(status)


def run(parent: int, request: list, descriptors: list[int]) -> int:
    """Be one of them, and return its exit status."""
    arguments, options, environment, directory = request
    os.setsid()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    for stream in (1, 2):
        os.dup2(descriptors[-1], stream)
    for option, number in zip(options, descriptors, strict=False):
        arguments += [option, str(number)]
    sys.argv = [begun.__name__, *arguments, "--parent", str(parent)]
    try:
        return begun.main() or 0
    except SystemExit as end:
        return end.code or 0


if __name__ == "__main__":
    from servekit.plugins import create_plugin_manager
    from servekit.worker.process.setup import leave

    begun = import_module(f"{sys.argv[1]}.__main__")
    for module in IMPORTS[sys.argv[1]]:
        import_module(module)
    create_plugin_manager()  # which imports the plugins that are installed
    gc.freeze()  # what is forked collects only its own garbage
    serve(socket.socket(fileno=int(sys.argv[2])))
