# SPDX-License-Identifier: Apache-2.0
"""Real children: what they print, how they end, what they leave behind."""

import os
import signal
import sys
from pathlib import Path

import pytest

from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import Process, ProcessSpec

WAIT_S = 60


class Child:
    """Runs a line of Python to its end, in a loop of its own."""

    def __init__(self, code, *, environment=None, directory=None, inherited=()):
        self.lines, self.exits, self.loop = [], [], Loop()
        self.command = ProcessSpec(
            arguments=[sys.executable, "-c", code],
            environment=environment or {},
            directory=directory,
            inherited=inherited,
        )

    def start(self, on_line=lambda _child: None):
        def heard(line):
            self.lines.append(line)
            on_line(self)

        self.process = Process(self.loop, self.command, heard, self.ended)
        return self

    def ended(self, exit_code):
        self.exits.append(exit_code)
        self.loop.stop()

    def run(self, on_line=lambda _child: None):
        self.start(on_line)
        self.loop.call_later(WAIT_S, lambda: pytest.fail(f"no end after {WAIT_S} s"))
        self.loop.run()
        return self


@pytest.mark.parametrize(
    ("code", "lines", "exit_code"),
    [
        pytest.param("print('hi')", ["hi"], 0, id="stdout"),
        pytest.param("import sys; print('hi', file=sys.stderr)", ["hi"], 0, id="stderr"),
        pytest.param("import os; os.write(1, b'cut')", ["cut"], 0, id="last line without a break"),
        pytest.param("import os; os._exit(3)", [], 3, id="exit code"),
        pytest.param("import os; os.abort()", [], -signal.SIGABRT, id="signal"),
        pytest.param("input()", [...], 1, id="stdin is empty"),
    ],
)
def test_child(code, lines, exit_code):
    child = Child(code).run()

    assert child.exits == [exit_code]
    assert lines == [...] or child.lines == lines


def test_flood_does_not_stop_the_loop_and_keeps_the_end():
    child = Child(
        "import os\nfor n in range(50): os.write(1, b'x\\n' * 50_000)\nprint('end')"
    ).run()

    assert child.process.tail[-1] == "end"
    assert len(child.lines) < 50_000


def test_killed_child_takes_its_children_along():
    code = "import os, subprocess; print(subprocess.Popen(['sleep', '100']).pid, flush=True); input"
    child = Child(code + "\nimport time; time.sleep(100)").run(lambda child: child.process.kill())
    grandchild = int(child.lines[0])

    assert child.exits == [-signal.SIGKILL]
    assert wait_gone(grandchild)


def test_orphan_of_a_child_that_left_by_itself_is_killed():
    code = "import subprocess; print(subprocess.Popen(['sleep', '100']).pid)"
    child = Child(code).run()

    assert wait_gone(int(child.lines[0]))


def wait_gone(pid):
    pidfd = None
    try:
        pidfd = os.pidfd_open(pid)
        loop = Loop()
        loop.watch(pidfd, lambda _events: loop.stop())
        loop.call_later(WAIT_S, lambda: pytest.fail(f"{pid} lives on"))
        loop.run()
    except ProcessLookupError:
        pass
    finally:
        if pidfd is not None:
            os.close(pidfd)
    return True


def test_stopped_child_can_be_killed():
    code = "import os, signal; print('x', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    child = Child(code).run(lambda child: child.loop.call_later(0.05, child.process.kill))

    assert child.exits == [-signal.SIGKILL]


def test_child_sees_only_its_environment_directory_and_descriptors(tmp_path):
    reader, writer = os.pipe()
    code = (
        "import os; print(sorted(set(os.environ) - {'LC_CTYPE', '_SERVEKIT_CHILD'}), os.getcwd());"
        # among the names is the descriptor that listed them, closed since
        "names = os.listdir('/proc/self/fd')\n"
        "print(sorted(int(name) for name in names if os.path.exists(f'/proc/self/fd/{name}')))"
    )
    child = Child(code, environment={"A": "1"}, directory=str(tmp_path), inherited=(writer,)).run()
    os.close(reader)
    os.close(writer)

    assert child.lines == [f"['A'] {tmp_path}", str([0, 1, 2, writer])]


def test_signals_to_a_child_that_is_gone_do_nothing():
    child = Child("pass").run()

    child.process.signal(signal.SIGTERM)
    child.process.kill()


def test_program_that_is_not_there_is_an_os_error_and_leaks_nothing():
    before = len(list(Path("/proc/self/fd").iterdir()))
    child = Child("pass")
    child.command = ProcessSpec(arguments=["/no/such/program"], environment={})
    with pytest.raises(FileNotFoundError):
        child.start()
    child.loop = None

    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
