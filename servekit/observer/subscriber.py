# SPDX-License-Identifier: Apache-2.0
"""One plugin that gets events: its hooks run in a separate thread, one at a time."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from threading import Condition, Thread
from typing import Any

import pluggy

from servekit.hookspecs import OBSERVER_HOOKS

__all__ = ["Subscriber", "subscribers_of"]

MAX_WAITING = 1000  #: calls; of more the oldest are dropped
MAX_RECORDS = 100  #: of the log, in one call
LOGS = "export_logs"

log = logging.getLogger("servekit.observer")

Call = Callable[[Any], object]


class Subscriber:
    """Calls the hooks of one plugin in the order of the events; never makes the caller wait."""

    def __init__(self, plugin: str, hooks: Mapping[str, Call]) -> None:
        """Start the thread. *hooks*: what calls each hook that the plugin implements."""
        self._plugin = plugin
        self._hooks = hooks
        self._waiting: deque[tuple[str, Any]] = deque()
        self._changed = Condition()
        self._has_failed: set[str] = set()  #: hooks whose exceptions have been logged
        self._is_ending = False
        self._lost = 0
        self._failures = 0
        self._thread = Thread(target=self._run, name=plugin, daemon=True)
        self._thread.start()

    def offer(self, hook: str, *arguments: object) -> None:
        """Call *hook* soon with each of *arguments*, if the plugin implements it."""
        if hook not in self._hooks:
            return
        with self._changed:
            self._waiting.extend([(hook, each) for each in arguments])
            while len(self._waiting) > MAX_WAITING:
                self._waiting.popleft()
                self.lose(1)
            self._changed.notify()

    def lose(self, count: int) -> None:
        """Count events that do not reach the plugin, and log the first time."""
        if not self._lost:
            log.warning("plugin %s does not keep up: some events are lost", self._plugin)
        self._lost += count

    def end(self, timeout_s: float) -> None:
        """Wait at most *timeout_s* until all calls are made; log how many were not."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self._thread.join(timeout_s)
        lost = self._lost + len(self._waiting)
        if lost or self._failures:
            text = "plugin %s: events lost: %d, calls that failed: %d"
            log.warning(text, self._plugin, lost, self._failures)

    def _run(self) -> None:
        while call := self._take():
            hook, argument = call
            try:
                self._hooks[hook](argument)
            except Exception:
                self._failures += 1
                if hook not in self._has_failed:
                    self._has_failed.add(hook)
                    text = "plugin %s: %s failed; its next failures are not logged"
                    log.exception(text, self._plugin, hook)

    def _take(self) -> tuple[str, Any] | None:
        """Wait for the next call, ``None`` at the end; lines of the log come as a list."""
        with self._changed:
            if not self._waiting:
                self._changed.wait_for(lambda: self._waiting or self._is_ending)
            if not self._waiting:
                return None
            hook, argument = self._waiting.popleft()
            if hook != LOGS:
                return hook, argument
            records = [argument]
            while len(records) < MAX_RECORDS and self._waiting and self._waiting[0][0] == LOGS:
                records.append(self._waiting.popleft()[1])
            return hook, records


def subscribers_of(manager: pluggy.PluginManager) -> list[Subscriber]:
    """Return a subscriber for each plugin that implements hooks of the observer."""
    found = []
    for name, plugin in manager.list_name_plugin():
        calls = {hook: call for hook in OBSERVER_HOOKS if (call := _call(manager, hook, plugin))}
        if calls:
            found.append(Subscriber(name, calls))
    return found


def _call(manager: pluggy.PluginManager, hook: str, plugin: object) -> Call | None:
    """Return what calls *hook* of *plugin* alone, or ``None`` if it does not implement it."""
    caller = getattr(manager.hook, hook)
    if all(each.plugin is not plugin for each in caller.get_hookimpls()):
        return None
    others = [each for each in manager.get_plugins() if each is not plugin]
    alone = manager.subset_hook_caller(hook, others)
    (parameter,) = caller.spec.argnames
    return partial(_by_keyword, alone, parameter)


def _by_keyword(caller: pluggy.HookCaller, parameter: str, argument: object) -> object:
    return caller(**{parameter: argument})
