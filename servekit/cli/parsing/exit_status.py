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
    OK: "Success. For `servekit start`: stopped by a signal, except for 130.",
    PROBLEM_FOUND: "The command found a problem: a broken plugin with `--strict`, a refused"
    " archive, an unhealthy server, no running server, an operation that failed, or a standard"
    " output that cannot be written.",
    USAGE: "The command line is invalid: an unknown command or flag. For `servekit doctor`: it"
    " found an error; a warning is 1.",
    STARTUP_FAILED: "The server cannot start: an invalid setting or path, the port is in use, or"
    " there is no model. Or the model to be shown is refused.",
    INTERRUPTED: "Ctrl-C (SIGINT) before the server was ready, while an archive was read or"
    " written, or while a running server carried out an operation, which continues."
    " For `servekit bench` and `servekit tune`: the measurement ended early, also by `--deadline`.",
    TERMINATED: "SIGTERM while an archive was read or written.",
}
