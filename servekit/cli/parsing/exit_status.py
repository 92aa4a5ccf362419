# SPDX-License-Identifier: Apache-2.0
"""How ``servekit`` ends, for scripts."""

__all__ = [
    "INTERRUPTED",
    "OK",
    "PROBLEM_FOUND",
    "STARTUP_FAILED",
    "STATUSES",
    "TERMINATED",
    "USAGE",
]

OK = 0
PROBLEM_FOUND = 1
USAGE = 2
STARTUP_FAILED = 3
INTERRUPTED = 130
TERMINATED = 143

#: status to what it says; printed in the reference
STATUSES = {
    OK: "Done. For `servekit start`: stopped by a signal, except 130.",
    PROBLEM_FOUND: "The command ran and found a problem: a broken plugin with `--strict`, an"
    " archive that is refused, a server that is not healthy, or no server to ask.",
    USAGE: "The command line makes no sense: an unknown command or flag.",
    STARTUP_FAILED: "The server cannot start as asked: a setting, a path, the port, or no model;"
    " or the model to be shown is refused.",
    INTERRUPTED: "Ctrl-C (SIGINT) before the server was up, or while an archive was read or"
    " written.",
    TERMINATED: "SIGTERM while an archive was read or written.",
}
