# SPDX-License-Identifier: Apache-2.0
"""The sentences of the log, one function for each kind."""

import traceback

from servekit.extension.events import WorkerExited, WorkerReady
from servekit.ipc.operations import OperationRow
from servekit.settings.values import MIB, size_text
from servekit.supervisor.os.backoff import Wait
from servekit.supervisor.reporting.journal import LogPlace, Notice

__all__ = [
    "front_end_exited",
    "internal_error",
    "model_asleep",
    "model_failed",
    "model_reloaded",
    "model_scaled",
    "model_unchanged",
    "model_wanted",
    "operation_done",
    "operation_failed",
    "place_of",
    "preloaded",
    "process_exited",
    "process_started",
    "reload_failed",
    "replica_grown",
    "subject_of",
    "variables_withheld",
    "worker_exited",
    "worker_ready",
]


def subject_of(model: str, stage: str, replica: int) -> str:
    """``digits/0``, or ``photos/decode/0`` where there are stages."""
    return "/".join(filter(None, (model, stage, str(replica))))


def worker_ready(event: WorkerReady) -> Notice:
    """``digits/0 ready after 0.41 s``."""
    fields = {
        "generation": event.generation,
        "pid": event.pid,
        "load_s": round(event.load_s, 3),
    }
    text = f"ready after {event.load_s:.2f} s"
    return Notice("worker_ready", _subject(event), text, fields=fields, place=_place(event))


def worker_exited(event: WorkerExited) -> Notice:
    """``digits/0 exited with -9 after 312 s (killed from outside), restarting in 1.0 s``."""
    reason = f" ({event.reason})" if event.reason else ""
    boot = "" if event.served_s is not None else " before it was ready"
    text = f"exited with {event.exit_code} after {_seconds(event.lived_s)}{boot}{reason}"
    fields = {
        "generation": event.generation,
        "exit_code": event.exit_code,
        "lived_s": round(event.lived_s, 3),
        "served_s": event.served_s and round(event.served_s, 3),
        "reason": event.reason,
        "restart_s": event.restart_s and round(event.restart_s, 3),
        "has_given_up": event.has_given_up,
    }
    level = "error" if event.restart_s is None or event.has_given_up else "warning"
    then = _restart(event.restart_s, has_given_up=event.has_given_up)
    text = f"{text}, {then}"
    return Notice("worker_exited", _subject(event), text, level, fields, _place(event))


def model_failed(model: str, reason: str) -> Notice:
    """``digits cannot be loaded: entry weights.npy: wrong SHA-256``; several go below it."""
    lines = reason.splitlines()
    shown = f" {reason}" if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
    text, fields = f"cannot be loaded:{shown}", {"reason": reason}
    return Notice("model_failed", model, text, "error", fields, place_of(model))


def model_wanted(label: str) -> Notice:
    """``digits/1.0 is loading: a request arrived``."""
    text = "is loading: a request arrived"
    return Notice("model_wanted", label, text, place=place_of(label))


def model_asleep(label: str, reason: str) -> Notice:
    """``digits/1.0 unloaded after 60 s without a request``."""
    return Notice("model_asleep", label, reason, place=place_of(label))


def model_reloaded(old: str, new: str) -> Notice:
    """``digits/1.1 serves in place of digits/1.0``."""
    text = f"serves in place of {old}"
    fields = {"old": old, "new": new}
    return Notice("model_reloaded", new, text, fields=fields, place=place_of(new))


def model_scaled(label: str, stage: str, replicas: int, text: str, level: str) -> Notice:
    """``digits/1.0 scales from 1 to 2: requests wait``."""
    subject, fields = "/".join(filter(None, (label, stage))), {"replicas": replicas}
    return Notice("model_scaled", subject, text, level, fields, place_of(label, stage))


def replica_grown(model: str, stage: str, replica: int, used: int, bound: int) -> Notice:
    """``digits/0 has 300 MiB of private memory, more than 256 MiB; a spare takes its place``."""
    text = f"has {used / MIB:.0f} MiB of private memory, more than {size_text(bound)}"
    text += "; a spare takes its place"
    fields = {"used_bytes": used, "max_bytes": bound}
    subject, place = subject_of(model, stage, replica), LogPlace(model, "", stage, replica)
    return Notice("replica_grown", subject, text, fields=fields, place=place)


def preloaded(model: str, stage: str, import_s: float | None, reason: str) -> Notice:
    """``digits forks its replicas from a parent that has imported the service in 1.8 s``."""
    subject = "/".join(filter(None, (model, stage)))
    fields, place = {"reason": reason}, place_of(model, stage)
    if import_s is None:
        text = f"is not preloaded: {reason}; each replica imports for itself"
        return Notice("not_preloaded", subject, text, "warning", fields, place)
    text = f"forks its replicas from a parent that has imported the service in {import_s:.2f} s"
    return Notice("preloaded", subject, text, fields=fields, place=place)


def model_unchanged(label: str) -> Notice:
    """``digits/1.0 has not changed``."""
    return Notice("model_unchanged", label, "has not changed", place=place_of(label))


def reload_failed(label: str, reason: str, serving: str) -> Notice:
    """``digits/1.1 cannot take over: RuntimeError: no weights; digits/1.0 still serves``."""
    shown = "; ".join(reason.splitlines())
    text = f"cannot take over: {shown}; {serving} still serves"
    fields = {"reason": reason, "serving": serving}
    return Notice("reload_failed", label, text, "error", fields, place_of(label))


def operation_done(row: OperationRow) -> Notice:
    """``digits swap done: 2.0``."""
    shown = f": {row.version}" if row.version else ""
    return _of_operation("operation_done", row, f"{row.kind} done{shown}", "info", {})


def operation_failed(row: OperationRow) -> Notice:
    """``digits swap failed: rolled back to 1.0: 21 % of 200 responses are errors, ...``."""
    text = f"{row.kind} failed: {row.error}"
    return _of_operation("operation_failed", row, text, "error", {"reason": row.error})


def _of_operation(
    event: str, row: OperationRow, text: str, level: str, more: dict[str, object]
) -> Notice:
    fields = {"operation": row.id, "kind": row.kind, **more}
    place = LogPlace(row.model, row.version)
    return Notice(event, row.model or "servekit", text, level, fields, place)


def front_end_exited(exit_code: int, lived_s: float, wait: Wait) -> Notice:
    """``front-end exited with -9 after 12 s, restarting at once``."""
    text = f"exited with {exit_code} after {_seconds(lived_s)}, {_restart(wait.delay_s)}"
    fields = {"exit_code": exit_code, "restart_s": round(wait.delay_s, 3)}
    return Notice("front_end_exited", "front-end", text, "warning", fields)


def process_started(subject: str, pid: int) -> Notice:
    """``daemon/redis started``."""
    return Notice(f"{_kind(subject)}_started", subject, "started", fields={"pid": pid})


def process_exited(subject: str, reason: str, lived_s: float | None, wait: Wait) -> Notice:
    """``daemon/redis exited with 1 after 3.0 s, restarting at once``."""
    after = "" if lived_s is None else f" after {_seconds(lived_s)}"
    then = _restart(wait.delay_s, has_given_up=wait.has_given_up)
    fields = {"reason": reason, "restart_s": round(wait.delay_s, 3)}
    level = "error" if wait.has_given_up else "warning"
    return Notice(f"{_kind(subject)}_exited", subject, f"{reason}{after}, {then}", level, fields)


def variables_withheld(names: list[str], level: str) -> Notice:
    """``servekit keeps these variables from workers (see pass_env): HF_TOKEN``; no values."""
    text = f"keeps these variables from workers (see pass_env): {', '.join(names)}"
    return Notice("variables_withheld", "servekit", text, level, {"variables": names})


def internal_error(error: Exception) -> Notice:
    """A bug of the supervisor, with its traceback."""
    text = "internal error: " + "".join(traceback.format_exception(error))
    return Notice("internal_error", "servekit", text, "error")


def _kind(subject: str) -> str:
    return subject.partition("/")[0]


def _subject(event: WorkerReady | WorkerExited) -> str:
    return subject_of(event.model, event.stage, event.replica)


def place_of(label: str, stage: str = "") -> LogPlace:
    """Return the place of *label*, which is ``digits`` or ``digits/1.0``."""
    model, _, version = label.partition("/")
    return LogPlace(model, version, stage)


def _place(event: WorkerReady | WorkerExited) -> LogPlace:
    return LogPlace(event.model, event.version, event.stage, event.replica)


def _restart(delay_s: float | None, *, has_given_up: bool = False) -> str:
    if delay_s is None:
        return "not replaced"
    if has_given_up:
        return f"failed too often, next try in {delay_s:.0f} s"
    return f"restarting in {delay_s:.1f} s" if delay_s else "restarting at once"


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.0f} s" if duration_s >= 10 else f"{duration_s:.1f} s"
