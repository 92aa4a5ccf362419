# SPDX-License-Identifier: Apache-2.0
"""Services that do what services should not."""

import os
import signal
import subprocess
import sys
import threading
import time

from servekit import ClientError, InputError, Service


class Unshowable(Exception):
    """Raises while it is shown."""

    def __str__(self):
        raise ValueError("no text")


class OwnInputError(InputError):
    """An author's own refusal."""


def recurse():
    """Never return."""
    recurse()


def deep(levels):
    """Return a list in a list in a list ..."""
    value = []
    for _ in range(levels):
        value = [value]
    return value


def flood():
    """Write 10 MB to stdout, then a line without an end."""
    os.write(1, b"x" * 10_000_000)
    print("no end of line", end="")


def pool():
    """Use processes that are forked from the worker."""
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as workers:
        return [sum(workers.map(abs, [-1, -2]))]


def inherited():
    """Return what a program started with all of our descriptors sees."""
    command = ["ls", "-l", "/proc/self/fd"]
    return [subprocess.run(command, close_fds=False, capture_output=True, text=True).stdout]


def loop():
    """Hold a list that holds itself."""
    value = []
    value.append(value)
    return value


RAISES = {
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "RecursionError": RecursionError,
    "MemoryError": MemoryError,
    "ZeroDivisionError": ZeroDivisionError,
    "Unshowable": Unshowable,
    "SystemExit": SystemExit,
    "InputError": lambda: InputError("all of it"),
    "ClientError": lambda: ClientError("all of it"),
    "OwnInputError": lambda: OwnInputError("own"),
}
DOES = {
    "fork": lambda: [os.fork() * 0],
    "flood": lambda: [flood()],
    "pool": pool,
    "recurse": recurse,
    "exit": lambda: sys.exit("bye"),
    "sigterm": lambda: [os.kill(os.getpid(), signal.SIGTERM)],
    "sigint": lambda: [os.kill(os.getpid(), signal.SIGINT)],
    "stdout None": lambda: [setattr(sys, "stdout", None)],
    "thread": lambda: [threading.Thread(target=time.sleep, args=(1000,)).start()],
    "inherit": inherited,
    "1 GB": lambda: [bytes(2**30)],
    "chdir": lambda: [os.chdir("/")],
}
RETURNS = {
    "none": None,
    "nothing": [],
    "too many": [1, 2, 3, 4, 5, 6, 7, 8, 9],
    "a mapping": {"a": 1},
    "a text": "a",
    "a tuple": (1,),
    "a set": {1},
    "object": [object()],
    "nan": [float("nan")],
    "inf": [{"a": [float("-inf")]}],
    "cyclic": [loop()],
    "deep": [deep(5000)],
    "surrogate": ["\ud800"],
    "large": ["x" * 2_000_000],
    "null": [None],
}


class Fault(Service):
    """Does what the input says: raises, returns or does it."""

    def predict(self, batch):
        for key in (key for key in batch if isinstance(key, str)):
            if key in RAISES:
                raise RAISES[key]()
            if key in DOES:
                return DOES[key]()
            if key in RETURNS:
                return RETURNS[key]
            if key == "generator":
                return (item for item in batch)
        return batch


class SlotErrors(Service):
    """Refuses what is negative, by itself."""

    def predict(self, batch):
        return [InputError(f"{x} is negative") if x < 0 else x for x in batch]


class Steps(Service):
    """Has a preprocess and a postprocess that may fail."""

    def preprocess(self, request):
        if request.body == b"exit":
            raise SystemExit
        if request.body == b"refuse":
            raise InputError("refused", [{"field": "body", "message": "is refuse"}])
        return request.content_type, request.request_id, request.body.decode(), request

    def predict(self, batch):
        return [item[:3] for item in batch]

    def postprocess(self, output):
        if output[2] == "fail late":
            raise ValueError("late")
        return {"answer": output}


class SickPing(Service):
    """Says that it cannot go on."""

    def predict(self, batch):
        return batch

    def ping(self):
        raise RuntimeError("sick")
