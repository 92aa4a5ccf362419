# SPDX-License-Identifier: Apache-2.0
"""A target of a measurement: a running server, or one that is started for an archive."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Final

from msgspec.structs import replace

from servekit import LocalServer, serve
from servekit.errors import StartupError
from servekit_bench.load import Target, TimedRequest, Tls
from servekit_bench.targets.addresses import is_address, parse_address
from servekit_bench.targets.asking import MESSAGE, ask, ask_json, where
from servekit_bench.targets.inputs import (
    BodyInput,
    described_inputs,
    file_inputs,
    model_paths,
    packaged_inputs,
)

__all__ = ["OpenTarget", "TargetOptions", "opened"]

READY_S: Final = 600.0  #: how long a model may take to load
POLL_S: Final = 0.05
TRIED: Final = 8  #: inputs that are tried before the measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """How to reach a target, and the requests to send."""

    path: str = ""  #: ``""``: that of the URL, or of the only model
    model: str = ""  #: which of several models
    inputs: tuple[Path, ...] = ()  #: files and directories; none: examples of the model
    media_type: str = ""  #: the media type of *inputs*; ``""`` goes by their suffixes
    headers: tuple[tuple[str, str], ...] = ()
    tls: Tls = field(default_factory=Tls)
    settings: Mapping[str, Any] = field(
        default_factory=dict
    )  #: options of ``servekit start``, for archives
    timeout_s: float = 10.0  #: the longest wait for an answer


@dataclass(frozen=True, slots=True)
class OpenTarget:
    """A server that answers, with its requests."""

    name: str  #: as the user named it
    target: Target
    warnings: tuple[str, ...] = ()  #: inputs that are refused

    @property
    def url(self) -> str:
        """The URL that is measured."""
        return where(self.target) + self.target.requests[0].path


@contextmanager
def opened(name: str, options: TargetOptions) -> Iterator[OpenTarget]:
    """Yield the target that *name* names: a URL, ``unix:SOCKET``, or a model to serve meanwhile.

    :raises StartupError: it cannot be reached, cannot be served, or no input is known.
    """
    if is_address(name):
        target, path = parse_address(name, options.tls)
        yield _with_requests(name, target, options.path or path, options, [])
        return
    packaged = packaged_inputs(Path(name.partition("=")[2] or name))
    settings = {"port": 0, "strict": True, **options.settings}
    with _log_kept() as log, _start(name, settings, log) as server:
        target, _ = parse_address(server.url, options.tls)
        _wait_ready(target, log, options.headers)
        yield _with_requests(name, target, options.path, options, packaged)


def _start(name: str, settings: Mapping[str, Any], log: list[str]) -> LocalServer:
    """Start a server; if it cannot be started, its warnings and errors say why."""
    try:
        return serve(name, block=False, **settings)
    except StartupError as error:
        raise StartupError("\n".join(log) or str(error)) from error


def _wait_ready(target: Target, log: list[str], headers: tuple[tuple[str, str], ...]) -> None:
    deadline, pause = monotonic() + READY_S, Event()
    while True:
        try:
            status, _ = ask(target, TimedRequest("/ping", b"", headers, method="GET"), 5.0)
        except StartupError as error:  # it has ended: the model cannot be loaded
            raise StartupError("\n".join(log) or str(error)) from error
        if status == 200:
            return
        if monotonic() > deadline:
            raise StartupError(f"not ready within {READY_S:.0f} s: {'; '.join(log)}")
        pause.wait(POLL_S)


def _with_requests(
    name: str, target: Target, path: str, options: TargetOptions, packaged: list[BodyInput]
) -> OpenTarget:
    headers, timeout_s = dict(options.headers), options.timeout_s
    path = path or _only_path(target, options)
    if options.inputs:
        inputs = file_inputs(options.inputs, options.media_type)
    else:
        inputs = packaged or _examples(target, path, headers, timeout_s)
    requests = tuple(
        TimedRequest(path, each.body, (("Content-Type", each.media_type), *options.headers))
        for each in inputs
    )
    target = replace(target, requests=requests)
    return OpenTarget(name, target, _try(target, timeout_s))


def _examples(
    target: Target, path: str, headers: dict[str, str], timeout_s: float
) -> list[BodyInput]:
    """Return the inputs that the server describes for *path*.

    :raises StartupError: there are none.
    """
    document = ask_json(target, "/openapi.json", headers, timeout_s)
    if inputs := described_inputs(document, path):
        return inputs
    paths = document.get("paths") if isinstance(document, dict) else None
    is_other = isinstance(paths, dict) and path.partition("?")[0] not in paths
    problem = "the server describes no such path" if is_other else "no example is known"
    hint = "choose a model with --model, or give --input FILE" if is_other else "give --input FILE"
    raise StartupError(f"{where(target)}{path}: {problem}; {hint}")


def _only_path(target: Target, options: TargetOptions) -> str:
    """Return the path of the model, if the server has one, or if the user has chosen one."""
    models = model_paths(ask_json(target, "/", dict(options.headers), options.timeout_s))
    if options.model in models:
        return models[options.model]
    known = ", ".join(sorted(models)) or "none"
    if options.model or len(models) != 1:
        wanted = f"has no model {options.model!r}" if options.model else "choose one with --model"
        raise StartupError(f"{where(target)}: {wanted}; models: {known}")
    return next(iter(models.values()))


def _try(target: Target, timeout_s: float) -> tuple[str, ...]:
    """Send each of the first inputs once; return what is wrong with them.

    :raises StartupError: none of them is answered with a 2xx.
    """
    tried, problems = target.requests[:TRIED], []
    for number, request in enumerate(tried):
        status, body = ask(target, request, max(timeout_s, 30.0))
        if not 200 <= status < 300:
            reason = body.decode(errors="replace")[:MESSAGE]
            problems.append(f"input {number + 1} of {len(target.requests)}: {status}: {reason}")
    if len(problems) == len(tried):
        raise StartupError(f"{where(target)}{tried[0].path}: {problems[0]}")
    return tuple(problems)


@contextmanager
def _log_kept() -> Iterator[list[str]]:
    """Keep the warnings and errors of a server that this process starts."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("servekit")
    was_propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = was_propagated
