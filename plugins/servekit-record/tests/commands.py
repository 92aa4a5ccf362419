# SPDX-License-Identifier: Apache-2.0
"""The commands as users run them."""

import json
import signal
import subprocess
import sys

__all__ = ["WAIT_S", "RecordCommand", "run_pytest", "servekit"]

WAIT_S = 180.0


def servekit(*arguments, **options):
    """Run ``servekit`` to its end."""
    return _run("-m", "servekit", *arguments, **options)


def run_pytest(path):
    """Return what pytest prints about the tests in the file *path*."""
    ran = _run("-m", "pytest", "-q", "-p", "no:cacheprovider", path, cwd=path.parent)
    return ran.stdout + ran.stderr


def _run(*arguments, **options):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_S, check=False, **options
    )


class RecordCommand:
    """``servekit record``, which has begun."""

    def __init__(self, served, path, *flags):
        """Record the calls of *served*, which has its ``directory``, in the file *path*."""
        command = [sys.executable, "-m", "servekit", "record", "-o", str(path), "--json",
                   "--run-dir", str(served.directory), *flags]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr.readline().startswith("recording for ")

    def stop(self):
        """End it as Ctrl-C does, and return what it prints."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self, status=0):
        """Wait for its end, and return what it prints."""
        output, error = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == status, error
        return json.loads(output)
