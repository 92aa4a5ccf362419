# SPDX-License-Identifier: Apache-2.0
"""The plugin contract: every hook a plugin may implement.

A plugin is a module named by an entry point of the group ``servekit``. Its hook module
must be light to import: what is heavy is offered as an import string and imported only
in the process that needs it.

Hooks are called as pluggy calls them: wrappers, ``tryfirst`` and ``trylast`` work. Plugins are
called in the order of their names, and those that come with servekit last.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import pluggy
from servekit_archiver.hookspecs import (
    explain_migration,
    extend_verify,
    recognise_model,
    register_commands,
    unpack_archive,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from msgspec import Struct

    from servekit.errors import Forbidden, TooManyRequests, Unauthorized
    from servekit.extension import (
        Identity,
        Middleware,
        Observer,
        ProcessOffer,
        Protocol,
        Routes,
        Server,
        ServiceSpan,
        TransportOffer,
    )
    from servekit.extension.archives import ArchiveInfo, Kept, Policy, Refused
    from servekit.extension.checks import Diagnosis
    from servekit.extension.events import (
        BatchServed,
        LogRecord,
        MetricFamily,
        ModelLoaded,
        ModelUnloaded,
        RequestTraced,
        ServerStarted,
        ServerStopping,
        WorkerExited,
        WorkerReady,
    )
    from servekit.extension.sampling import TraceSampling
    from servekit.service.base import Service
    from servekit.settings import Settings

__all__ = [
    "OBSERVER_HOOKS",
    "CodecTarget",
    "PredictionRequest",
    "ReadOnly",
    "accept_archive",
    "authorize",
    "batch_served",
    "check_setup",
    "decrypt_archive",
    "enter_span",
    "explain_migration",
    "export_logs",
    "export_metrics",
    "extend_verify",
    "find_archive_key",
    "find_service",
    "hookimpl",
    "hookspec",
    "model_loaded",
    "model_unloaded",
    "observer_started",
    "observer_stopping",
    "open_archive",
    "recognise_model",
    "register_codecs",
    "register_commands",
    "register_fetchers",
    "register_middleware",
    "register_processes",
    "register_protocols",
    "register_routes",
    "register_services",
    "register_settings",
    "register_transports",
    "request_traced",
    "server_started",
    "server_stopping",
    "trace_sampler",
    "unpack_archive",
    "worker_exited",
    "worker_ready",
]

hookspec = pluggy.HookspecMarker("servekit")
hookimpl = pluggy.HookimplMarker("servekit")


class CodecTarget(str):
    """The import string of a codec, with what is known of it without importing it.

    A kind of value is ``object``, ``text``, ``bytes``, ``numbers`` (as Python has them, and
    lists of them), ``array`` (NumPy's), an array of a dtype and a shape, ``uint8[any, any, 3]``,
    or ``table``: ``decode`` returns ``servekit.extension.Rows``, and ``encode`` takes what
    ``predict`` returns for rows; only models with a signature have tables.
    """

    reads: Collection[str] | None  #: kinds that ``decode`` returns; ``None`` may be any
    writes: Collection[str] | None  #: kinds that ``encode`` takes; ``None`` may be any

    def __new__(
        cls,
        target: str,
        *,
        reads: Collection[str] | None = None,
        writes: Collection[str] | None = None,
    ) -> Self:
        """Say what the codec at *target* reads and writes, for the API descriptions."""
        found = super().__new__(cls, target)
        found.reads, found.writes = reads, writes
        return found


class ReadOnly(CodecTarget):
    """The import string of a codec whose ``encode`` is ``None``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRequest:
    """A prediction before its body is received."""

    model: str  #: the ``<model>`` of ``/<model>/predict``; it exists
    method: str  #: such as ``POST``
    headers: Mapping[str, str]  #: names in lower case
    peer: str  #: the client's address, or that of the proxy before it
    subject: str = ""  #: of the client's TLS certificate, if it was asked for one
    #: false for ``Routes.protected``: a job that is asked for or forgotten
    is_prediction: bool = True


@hookspec
def authorize(
    request: PredictionRequest,
) -> "Identity | Unauthorized | Forbidden | TooManyRequests | None":
    """Refuse a prediction, or allow it, and perhaps say who the client is.

    Runs in: front-end, in its event loop, once for each prediction, and each time its answer
    is fetched if it is a job, when the header section has arrived and before the body has.
    Must not block: no file, no socket, no sleep; every other request waits meanwhile. Bearer
    tokens of the server's own are checked before.

    :return: ``None``; or one of the errors of ``servekit.errors``, which is then the answer; or a
        ``servekit.extension.Identity``, which the service sees as ``request.identity`` and the
        access log shows. Any refusal wins; of several, the one of the lowest status. Two
        identities that differ, an exception, or anything else that is returned, refuse the
        prediction with a 500 and are logged.
    """


@hookspec
def register_services() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Offer services that a ``model.toml`` may name.

    Runs in: worker, once, before it loads its model; and ``servekit plugins``.

    :return: service name to import string, ``{"onnx": "servekit_onnx.service:OnnxService"}``.
        Two plugins offering one name is a ``PluginError`` for the models that use it;
        the order of plugins never decides.
    """


@hookspec
def register_settings() -> "type[Struct]":  # type: ignore[empty-body]
    """Offer settings that operators give this plugin.

    Runs in: front-end, once when the server starts; and ``servekit plugins``.

    :return: a ``msgspec.Struct``: each field is a setting, with a default, a type that JSON has,
        and what ``msgspec.Meta`` says of it: its ``description``, its bounds. A setting is a key
        of ``[plugins.NAME]`` in ``servekit.toml``, ``--plugin NAME.KEY=VALUE`` or
        ``SERVEKIT_PLUGIN_NAME_KEY``, where NAME is that of the entry point. The server does not
        start with a name, a key or a value that is not valid. ``Server.plugin_settings`` returns
        an instance. A field ``enabled: bool`` that is false leaves the plugin out of front-ends and
        observer.
    """


@hookspec
def check_setup(settings: "Settings") -> "Iterable[Diagnosis]":  # type: ignore[empty-body]
    """Look for the problems of this machine or of the settings that matter to this plugin.

    Runs in: ``servekit doctor``, which shows what it finds.

    :param settings: those of the server that is to run here, with the values of plugins.
    :return: a ``Diagnosis`` for each problem; none if all is well. Its text names the thing and the
        value, and its fix is a command where there is one.
    """


@hookspec(firstresult=True)
def find_service(
    reference: str, directory: Path, offers: Mapping[str, str]
) -> "type[Service] | None":
    """Return the service class that a manifest names.

    Runs in: worker, before it loads its model; and the processes that ``servekit assets`` and
    ``servekit describe --import`` start to import a service.

    :param reference: what ``service`` says: ``module:Class``, or a name.
    :param directory: of the model; it is on ``sys.path``.
    :param offers: what ``register_services`` offers: name to import string.
    :return: a subclass of ``servekit.Service``, or ``None`` if the plugin does not know the
        reference. The first plugin that returns one decides: one class serves the model. The
        default plugin, which imports ``module:Class`` of the archive and the classes of *offers*,
        is asked last. A ``BootError`` that is raised is the reason why the model does not load.
    """


@hookspec
def enter_span(span: "ServiceSpan") -> "AbstractContextManager[object] | None":
    """Take part in a span of a service, so that libraries with tracing of their own know it.

    Runs in: worker, in the thread or the task that enters the span; once for each batch with a
    traced member, for each turn of a traced stream, and for each ``servekit.span`` in them. A
    worker without traced requests never calls it. If it raises, it is not called any more.

    :param span: its ``traceparent`` is what requests to other servers send, and its ``recorder``
        takes the spans of libraries.
    :return: what is entered now, and exited when the span ends; ``None`` for nothing.
    """


@hookspec
def register_codecs() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Offer codecs: one decodes and encodes the bodies of one media type.

    Runs in: worker, once, before it loads its model; and ``servekit plugins``.

    :return: media type, or range such as ``image/*``, to the import string of a codec: an
        object with ``decode(body: bytes, parameters: Mapping[str, str]) -> Any`` and
        ``encode(output: Any) -> bytes``; either may be ``None`` when the codec goes one
        way only. ``encode`` raises ``TypeError`` for a kind of output that its media type is
        not made for, and the next media type of ``Accept`` is tried; with a true attribute
        ``is_enveloped`` it is given ``{"prediction": output}``. The codec of a plugin
        replaces the built-in one; two plugins offering one media type is a ``PluginError``.
        A codec without ``encode`` is offered as ``ReadOnly("module:codec")``: the API
        descriptions and ``Accept`` go by that, and do not import it. They name the media type
        of ``CodecTarget("module:codec", reads=["array"], writes=["array"])`` only where inputs
        and outputs may be values of these kinds.
    """


@hookspec
def register_fetchers() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Offer fetchers: one gets the ``[assets]`` whose URL has its scheme.

    Runs in: ``servekit assets``; the prepare child of ``servekit start --fetch-assets``; and
    ``servekit plugins``.

    :return: scheme to import string, ``{"s3": "servekit_fsspec.fetching:fetch"}``, of a function.
        It is called with the URL and a number of bytes, and yields the content from there on;
        an exception ends the attempt, and the next one continues where it stopped. The
        content is compared with the SHA-256 of the manifest. The fetcher of a plugin replaces
        the built-in one; two plugins offering one scheme is a ``PluginError``.
    """


@hookspec
def register_routes(server: "Server") -> "Iterable[Routes]":  # type: ignore[empty-body]
    """Add Flask routes to the clients' listener, or to those of management.

    Runs in: front-end, once when the process starts. The routes are under the server's limits,
    request ids and metrics; those of management need its token, and a view that predicts or
    shows predictions is protected by ``Routes.protected``.

    :return: ``Routes``, whose OpenAPI fragments are merged into ``/openapi.json``. A path or an
        OpenAPI member that exists already is a ``PluginError``, and the server does not start.
    """


@hookspec
def register_middleware(server: "Server") -> "Iterable[Middleware]":  # type: ignore[empty-body]
    """Add middleware, which sees every request before it is routed and every response after.

    Runs in: front-end, once when the process starts; the middleware then runs in its event loop
    and must not block. Inside of the server's own (access log, CORS, compression), so bodies are
    decompressed, and outside of the response cache.

    :return: callables as ``servekit.extension.middleware`` describes them. Those of the plugin
        that pluggy calls first are the outermost: ``tryfirst`` and ``trylast`` decide.
    """


@hookspec
def register_protocols(server: "Server") -> "Iterable[Protocol]":  # type: ignore[empty-body]
    """Add API protocols: families of paths whose requests become predictions.

    Runs in: front-end, once when the process starts; the ``find`` of each protocol then runs in its
    event loop for every request of its paths, and must not block. Bodies are read and written in
    the worker of the model, by the class that ``Protocol.envelope`` names.

    :return: instances of ``servekit.extension.Protocol``. Models come first: a protocol is never
        asked about a path at which a model answers. Two protocols that answer for all models at
        one path are a ``PluginError`` that names both, and the server does not start. Where a path
        of one lies below that of another, the longer one is asked first.
    """


@hookspec
def register_processes(server: "Server") -> "Iterable[ProcessOffer]":  # type: ignore[empty-body]
    """Add processes that run beside the server, such as one that speaks another protocol.

    Runs in: front-end, once when the process starts; the front-end reports what is returned to the
    supervisor, which starts each process once, starts it again when it ends, and stops it. A
    process reaches the server as a client does, at the socket ``Server.client_socket``.

    :return: offers. Two with the same name are a ``PluginError``, and the server does not start.
    """


@hookspec(firstresult=True)
def trace_sampler(server: "Server") -> "float | TraceSampling | None":
    """Return the share of the predictions to trace: ``request_traced`` gets all of these.

    Runs in: front-end, once when the process starts. A request with a ``traceparent`` is traced if
    the flags of that say so; of the others, the share is chosen at random, and each gets a
    ``traceparent`` here. Workers get it with the request, as they get that of a client.

    :return: a share from 0 to 1; or a ``TraceSampling``, which can also limit how many traces begin
        in a second, and leave the flags of clients aside; or ``None`` if the plugin does not want
        any. The first plugin that returns one of the others decides; without one only the slowest
        requests are traced.
    """


@hookspec
def register_transports() -> "Iterable[TransportOffer]":  # type: ignore[empty-body]
    """Offer versions of HTTP besides 1.1.

    Runs in: front-end, once when the process starts, and in the parent of the front-ends, which
    opens the listeners of transports with a separate address. The class of another transport is
    imported when the first client speaks it.

    :return: offers. Two with the same ALPN id or preface are a ``PluginError``.
    """


# ---------------------------------------------------------------- archives


@hookspec(firstresult=True)
def open_archive(url: str, scratch: Path, progress: "Callable[[int, int], None]") -> Path | None:
    """Provide the archive, or the model directory, at a URL that the operator named.

    Runs in: the prepare child, at the start and at each reload; ``servekit check``. May block.

    :param scratch: an empty directory of this server in its run directory, which no other user
        can enter. Files are removed when the archive has been unpacked. A directory that is
        returned is served where it is, and removed when the model is not served any more or the
        server has ended, whatever ended it.
    :param progress: to be called with the bytes done and in all (0: unknown) now and then; without
        it the load timeout ends the preparation.
    :return: a path in *scratch* or anywhere else, ``/proc/self/fd/N`` included; ``None`` for URLs
        that the plugin does not open. The first plugin that returns a path decides. An exception
        is the reason why the model cannot be loaded.
    """


@hookspec(firstresult=True)
def decrypt_archive(
    path: Path, target: Path, find_key: "Callable[[str], bytes]"
) -> "Literal[True] | None":
    """Decrypt an archive.

    Runs in: the prepare child, at the start and at each reload; ``servekit check``. May block.
    Asked of a file that is not a zip file, whether it is local or comes from a URL.

    :param path: the file, perhaps encrypted.
    :param target: where to write the decrypted archive: a new file, in a directory in memory
        that no other user can enter. The archive is unpacked beside it, and the directory is
        removed when the model is not served any more or the server has ended.
    :param find_key: returns the key with an id, or raises a ``StartupError``.
    :return: ``True`` if *target* was written; ``None`` if the plugin does not know such files. The
        first plugin that returns ``True`` decides. An exception is the reason why the model cannot
        be loaded.
    """


@hookspec(firstresult=True)
def find_archive_key(key_id: str) -> bytes | None:
    """Return a key for encrypted archives, from wherever keys are kept.

    Runs in: the prepare child; ``servekit check``. May block. Asked when ``decrypt_archive`` needs
    a key, after those of ``--archive-keys``.

    :param key_id: the id of the key, as the archive names it.
    :return: 32 bytes, or ``None`` if the plugin does not have it. The first plugin that returns a
        key decides. An exception is the reason why the model cannot be loaded.
    """


@hookspec
def accept_archive(archive: "ArchiveInfo", policy: "Policy") -> "Refused | Kept | None":
    """Refuse to serve an archive or a model directory, or allow it.

    Runs in: the prepare child, at the start and at each reload; ``servekit check``. The archive
    is unpacked and verified, and nothing of it has run: its requirements are installed, its
    assets fetched and its service imported later.

    Prepare children start for every model, so they import only the plugins that implement this
    hook: those are named in the group ``servekit.accept_archive`` of entry points, besides the
    group ``servekit``.

    :param policy: the rules that the operator has named (``--policy``), and the trusted keys.
    :return: ``None``; ``Refused(reason, rule, file)``; or ``Kept(rules)`` with those rules of
        *policy* that the plugin knows and the archive keeps. Any refusal wins, and a rule that no
        plugin says is kept refuses the archive. An exception, or anything else that is returned,
        refuses it too. A plugin that cannot be imported cannot refuse: operators who rely on one
        name a rule of it, or require it with ``--require-plugins``.
    """


# ---------------------------------------------------------------- the life of server and models
#
# These run in the observer, a separate process that is started when an installed plugin
# implements one of them. Each plugin has a thread there, so a slow one delays itself alone; when
# 1000 calls wait, the oldest are dropped and counted. An exception is logged, once for each hook.
# Return values are ignored. Every plugin is called separately: a wrapper wraps the implementation
# of the same plugin, and ``tryfirst`` has no effect.

#: the hooks of the observer; each has one parameter
OBSERVER_HOOKS = (
    "observer_started",
    "server_started",
    "server_stopping",
    "model_loaded",
    "model_unloaded",
    "worker_ready",
    "worker_exited",
    "batch_served",
    "request_traced",
    "export_metrics",
    "export_logs",
    "observer_stopping",
)


@hookspec
def observer_started(observer: "Observer") -> None:
    """Prepare for events.

    Runs in: observer, once, before all its other hooks.

    :param observer: has the settings of the plugin.
    """


@hookspec
def observer_stopping(observer: "Observer") -> None:
    """Finish: there are no more events.

    Runs in: observer, once, after all its other hooks. It has at most two seconds.
    """


@hookspec
def server_started(event: "ServerStarted") -> None:
    """The first load of every model is over, and predictions are accepted.

    Runs in: observer.
    """


@hookspec
def server_stopping(event: "ServerStopping") -> None:
    """The server has begun to stop; requests in flight are still answered.

    Runs in: observer.
    """


@hookspec
def model_loaded(event: "ModelLoaded") -> None:
    """A version of a model can answer: the first one, or one that replaces it.

    Runs in: observer.
    """


@hookspec
def model_unloaded(event: "ModelUnloaded") -> None:
    """The last worker of a version of a model that was loaded is gone.

    Runs in: observer.
    """


@hookspec
def worker_ready(event: "WorkerReady") -> None:
    """A worker has loaded its service.

    Runs in: observer.
    """


@hookspec
def worker_exited(event: "WorkerExited") -> None:
    """A worker ended, or could not be started: it crashed, was killed, or was asked to stop.

    Runs in: observer. If the worker held a batch the call comes a quarter of a second later,
    when the front-ends have said which requests were in it.
    """


@hookspec
def batch_served(event: "BatchServed") -> None:
    """A worker has answered a batch. Sampled: at most ten a second from each stage and front-end.

    Runs in: observer. ``event.batches`` says how many batches the sample stands for. Streams are
    no batches.
    """


@hookspec
def request_traced(event: "RequestTraced") -> None:
    """A request is over that is sampled (``trace_sampler``), or among the slowest of its model.

    Runs in: observer. Of each model, each front-end sends at most 8 slow ones a second, and only
    those that are slower than the eighth slowest of the last ten seconds. An event that the
    observer does not take at once is dropped.
    """


@hookspec
def export_metrics(metrics: "Sequence[MetricFamily]") -> None:
    """Take all metrics of the server, as ``/metrics`` shows them, every ten seconds.

    Runs in: observer. Reading them costs a front-end what a scrape does.
    """


@hookspec
def export_logs(records: "Sequence[LogRecord]") -> None:
    """Take lines of the server's log, 1 to 100 in the order in which they were written.

    Runs in: observer. They are the supervisor's own, of every level, and what its other
    processes print, a traceback as one; not those of the observer, nor the access log.
    """
