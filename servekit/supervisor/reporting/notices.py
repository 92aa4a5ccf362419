# SPDX-License-Identifier: Apache-2.0
"""The sentences of the lifecycle, each in one place."""

from servekit.ipc.control import Ready
from servekit.supervisor.os.backoff import Wait
from servekit.supervisor.replicas.replica import Replica
from servekit.supervisor.replicas.worker import Exit
from servekit.supervisor.reporting.journal import Notice

__all__ = [
    "daemon_exited",
    "daemon_started",
    "front_end_exited",
    "model_failed",
    "model_reloaded",
    "model_unchanged",
    "reload_failed",
    "subject",
    "variables_withheld",
    "worker_exited",
    "worker_ready",
]


def subject(model: str, replica: Replica) -> str:
    """``digits/0``, or ``photos/decode/0`` where there are stages."""
    return "/".join(filter(None, (model, replica.stage, str(replica.index))))


def worker_ready(model: str, replica: Replica, ready: Ready) -> Notice:
    """``digits/0 ready after 0.41 s``."""
    return Notice(
        "worker_ready",
        subject(model, replica),
        f"ready after {ready.load_s:.2f} s",
        fields={
            "model": model,
            "stage": replica.stage,
            "replica": replica.index,
            "generation": replica.generation,
            "pid": replica.pid,
            "load_s": round(ready.load_s, 3),
        },
    )


def worker_exited(model: str, replica: Replica, ended: Exit, wait: Wait | None) -> Notice:
    """``digits/0 exited with -9 after 312 s (killed from outside), restarting in 1.0 s``."""
    reason = f" ({ended.reason})" if ended.reason else ""
    boot = "" if ended.served_s is not None else " before it was ready"
    text = f"exited with {ended.exit_code} after {_seconds(ended.lived_s)}{boot}{reason}"
    fields = {
        "model": model,
        "stage": replica.stage,
        "replica": replica.index,
        "generation": replica.generation,
        "exit_code": ended.exit_code,
        "lived_s": round(ended.lived_s, 3),
        "served_s": None if ended.served_s is None else round(ended.served_s, 3),
        "reason": ended.reason,
        "restart_s": None if wait is None else round(wait.delay_s, 3),
        "has_given_up": wait is not None and wait.has_given_up,
    }
    level = "error" if wait is None or wait.has_given_up else "warning"
    return Notice("worker_exited", subject(model, replica), f"{text}, {_next(wait)}", level, fields)


def model_failed(model: str, reason: str) -> Notice:
    """``digits cannot be loaded: entry weights.npy: wrong SHA-256``; several go below it."""
    lines = reason.splitlines()
    shown = f" {reason}" if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
    fields = {"model": model, "reason": reason}
    return Notice("model_failed", model, f"cannot be loaded:{shown}", "error", fields)


def model_reloaded(old: str, new: str) -> Notice:
    """``digits/1.1 serves in place of digits/1.0``."""
    text = f"serves in place of {old}"
    return Notice("model_reloaded", new, text, fields={"old": old, "new": new})


def model_unchanged(label: str) -> Notice:
    """``digits/1.0 has not changed``."""
    return Notice("model_unchanged", label, "has not changed", fields={"model": label})


def reload_failed(subject: str, reason: str, serving: str) -> Notice:
    """``digits/1.1 cannot take over: RuntimeError: no weights; digits/1.0 goes on serving``."""
    shown = "; ".join(reason.splitlines())
    text = f"cannot take over: {shown}; {serving} goes on serving"
    fields = {"reason": reason, "serving": serving}
    return Notice("reload_failed", subject, text, "error", fields)


def front_end_exited(exit_code: int, lived_s: float, wait: Wait) -> Notice:
    """``front-end exited with -9 after 12 s, restarting at once``."""
    text = f"exited with {exit_code} after {_seconds(lived_s)}, {_next(wait)}"
    fields = {"exit_code": exit_code, "restart_s": round(wait.delay_s, 3)}
    return Notice("front_end_exited", "front-end", text, "warning", fields)


def daemon_started(subject: str, pid: int) -> Notice:
    """``daemon/redis started``."""
    return Notice("daemon_started", subject, "started", fields={"pid": pid})


def daemon_exited(subject: str, reason: str, lived_s: float | None, wait: Wait) -> Notice:
    """``daemon/redis exited with 1 after 3.0 s, restarting at once``."""
    after = "" if lived_s is None else f" after {_seconds(lived_s)}"
    fields = {"reason": reason, "restart_s": round(wait.delay_s, 3)}
    level = "error" if wait.has_given_up else "warning"
    return Notice("daemon_exited", subject, f"{reason}{after}, {_next(wait)}", level, fields)


def variables_withheld(names: list[str], level: str) -> Notice:
    """``servekit withholds from workers, unless --pass-env names them: HF_TOKEN``; no values."""
    text = f"withholds from workers, unless --pass-env names them: {', '.join(names)}"
    return Notice("variables_withheld", "servekit", text, level, {"variables": names})


def _next(wait: Wait | None) -> str:
    if wait is None:
        return "not replaced"
    if wait.has_given_up:
        return f"failed too often, next try in {wait.delay_s:.0f} s"
    return f"restarting in {wait.delay_s:.1f} s" if wait.delay_s else "restarting at once"


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.0f} s" if duration_s >= 10 else f"{duration_s:.1f} s"
