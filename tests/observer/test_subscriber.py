# SPDX-License-Identifier: Apache-2.0
"""A plugin is called in order, in its own time; what it does harms nobody but itself."""

import threading

import pytest

from servekit.extension import LogRecord, WorkerReady
from servekit.hookspecs import OBSERVER_HOOKS, hookimpl
from servekit.observer import subscriber
from servekit.observer.subscriber import Subscriber, subscribers_of
from servekit.plugins import create_plugin_manager

WAIT_S = 60.0


def ready(replica):
    return WorkerReady(
        time_s=0.0, model="m", version="1", stage="", replica=replica, generation=1, pid=1,
        load_s=0.1,
    )  # fmt: skip


def line(text):
    return LogRecord(time_s=0.0, level="info", name="output", subject="m/0", text=text)


class Plugin:
    """Notes what it is told, once it may."""

    def __init__(self):
        self.seen = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    @hookimpl
    def worker_ready(self, event):
        self.seen.append(event.replica)
        assert self.may_go_on.wait(WAIT_S)

    @hookimpl
    def export_logs(self, records):
        self.seen.append([record.text for record in records])


@pytest.fixture
def plugin():
    return Plugin()


@pytest.fixture
def subscribed(plugin):
    (found,) = subscribers_of(create_plugin_manager(plugin, discover=False))
    return found


def test_events_come_in_order_and_lines_of_the_log_in_lists(plugin, subscribed):
    plugin.may_go_on.clear()
    subscribed.offer("worker_ready", ready(1))
    for text in "abc":
        subscribed.offer("export_logs", line(text))
    subscribed.offer("worker_ready", ready(2))
    subscribed.offer("export_logs", line("d"))
    plugin.may_go_on.set()
    subscribed.end(WAIT_S)

    assert plugin.seen in ([1, ["a", "b", "c"], 2, ["d"]], [1, ["a"], ["b", "c"], 2, ["d"]])


def test_a_list_of_lines_is_short(monkeypatch):
    monkeypatch.setattr(subscriber, "MAX_RECORDS", 2)
    gate, seen = threading.Event(), []

    def take(records):
        assert gate.wait(WAIT_S)
        seen.append(len(records))

    subscribed = Subscriber("p", {"export_logs": take})
    for _ in range(6):
        subscribed.offer("export_logs", line("x"))
    gate.set()
    subscribed.end(WAIT_S)

    assert sum(seen) == 6
    assert max(seen) == 2


def test_hooks_that_a_plugin_does_not_implement_are_not_called(plugin, subscribed):
    subscribed.offer("worker_exited", object())
    subscribed.end(WAIT_S)

    assert plugin.seen == []


def test_a_slow_plugin_loses_the_oldest_events_and_that_is_said_once(plugin, subscribed, caplog):
    plugin.may_go_on.clear()
    subscribed.offer("worker_ready", ready(0))
    while not plugin.seen:
        threading.Event().wait(0.001)
    for number in range(1, subscriber.MAX_WAITING + 6):
        subscribed.offer("worker_ready", ready(number))
    plugin.may_go_on.set()
    subscribed.end(WAIT_S)

    assert plugin.seen == [0, *range(6, subscriber.MAX_WAITING + 6)]
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "some events are lost",
        "events lost: 5, calls that failed: 0",
    ]


def test_a_plugin_that_never_returns_is_not_waited_for(plugin, subscribed, caplog):
    plugin.may_go_on.clear()
    for number in range(3):
        subscribed.offer("worker_ready", ready(number))
    while not plugin.seen:
        threading.Event().wait(0.001)
    subscribed.end(0.05)
    said = caplog.records[-1].getMessage()
    plugin.may_go_on.set()

    assert said.endswith("events lost: 2, calls that failed: 0")


def test_an_exception_is_logged_once_and_counted(caplog):
    def fail(event):
        raise RuntimeError(f"no disk for {event}")

    failing = Subscriber("p", {"worker_ready": fail, "worker_exited": fail})
    for hook in ("worker_ready", "worker_ready", "worker_exited"):
        failing.offer(hook, 7)
    failing.end(WAIT_S)
    texts = [record.getMessage() for record in caplog.records]

    assert texts == [
        "plugin p: worker_ready failed; its next failures are not logged",
        "plugin p: worker_exited failed; its next failures are not logged",
        "plugin p: events lost: 0, calls that failed: 3",
    ]
    assert "no disk for 7" in caplog.text


def test_plugins_are_called_apart_and_a_wrapper_wraps_its_own():
    said = []

    class First:
        @hookimpl
        def worker_ready(self, event):
            said.append("first")

    class Wrapping:
        @hookimpl(wrapper=True)
        def worker_ready(self, event):
            said.append("before")
            yield
            said.append("after")

    found = subscribers_of(create_plugin_manager(First(), Wrapping(), discover=False))
    for each in found:
        each.offer("worker_ready", ready(0))
        each.end(WAIT_S)

    assert sorted(said) == ["after", "before", "first"]


def test_plugins_without_these_hooks_are_left_alone():
    assert subscribers_of(create_plugin_manager(discover=False)) == []


def test_each_hook_of_the_observer_has_one_parameter():
    manager = create_plugin_manager(discover=False)

    for hook in OBSERVER_HOOKS:
        assert len(getattr(manager.hook, hook).spec.argnames) == 1
