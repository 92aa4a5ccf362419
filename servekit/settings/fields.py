# SPDX-License-Identifier: Apache-2.0
"""The settings: one field each."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servekit.settings.addresses import absolute_bind, address, bind_address, file_mode
from servekit.settings.archive_keys import archive_key_source
from servekit.settings.daemons import DaemonSpec
from servekit.settings.deployments import Deployment
from servekit.settings.plugin_values import PluginValue
from servekit.settings.values import (
    DAY_S,
    GIB,
    KIB,
    MIB,
    TIB,
    Between,
    absolute,
    absolute_model,
    absolute_output,
    number,
    one_of,
    origin,
    proxy,
    rule_names,
    size,
    switch,
    variable_pattern,
)  # fmt: skip

__all__ = ["PREFIX", "Option", "Settings", "options"]

PREFIX = "SERVEKIT_"  #: prefix of every variable
KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    tuple: "a list of strings",
}


def unchanged(_base: Path, value: Any) -> Any:
    """Return a value that is not a path unchanged."""
    return value


@dataclass(frozen=True, slots=True)
class Option:
    """One setting, for the sources of values."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    resolve: Callable[[Path, Any], Any]  #: makes a path absolute
    help: str
    unit: str

    @property
    def flag(self) -> str:
        """``--max-body``."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """``SERVEKIT_MAX_BODY``."""
        return PREFIX + self.name.upper()

    @property
    def is_list(self) -> bool:
        """Whether it takes several strings."""
        return isinstance(self.default, tuple)

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self.default, bool)

    @property
    def is_number(self) -> bool:
        """Whether it is a number, a size or a duration."""
        return isinstance(self.parse, Between)

    @property
    def kind(self) -> str:
        """The kind of its value, in words."""
        return "a size" if self.unit == "bytes" else KINDS[type(self.default)]

    @property
    def range(self) -> str:
        """``1 to 512MiB``; "" if it is not a number."""
        if not isinstance(self.parse, Between):
            return ""
        return f"{self.parse.show(self.parse.low)} to {self.parse.show(self.parse.high)}"


def setting(
    default: Any,
    help: str,  # noqa: A002
    parse: Callable[[str], Any] = str,
    unit: str = "",
    resolve: Callable[[Path, Any], Any] = unchanged,
) -> Any:
    """Declare one field of ``Settings``; *resolve* makes a path absolute."""
    facts = {"help": help, "parse": parse, "unit": unit, "resolve": resolve}
    return dataclasses.field(default=default, metadata=facts)


def a_size(low: int, high: int) -> dict[str, Any]:
    """Return the arguments of ``setting`` for a size."""
    return {"parse": Between(low, high, size), "unit": "bytes"}


def a_duration(low: float = 0.0) -> dict[str, Any]:
    """Return the arguments of ``setting`` for a duration: a day at most."""
    return {"parse": Between(low, DAY_S, number), "unit": "seconds"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a server. Sizes are bytes and durations are seconds."""

    models: tuple[str, ...] = setting(
        (),
        "archives, model directories or classes (service.py:CLASS) to serve; NAME=PATH serves one"
        " under another name",
        resolve=absolute_model,
    )
    model_store: str = setting(
        "", "directory whose archives and model directories are all served", resolve=absolute
    )
    watch: bool = setting(
        False,
        "follow the changes of model_store: load, replace and unload models",
        switch,
    )
    host: str = setting("127.0.0.1", "address to listen on")
    port: int = setting(8080, "TCP port; 0 for any free port", Between(0, 65535))
    bind: tuple[str, ...] = setting(
        (),
        "addresses to listen on, in place of host and port: HOST:PORT, unix:PATH, or systemd for"
        " the sockets that it passes",
        bind_address,
        resolve=absolute_bind,
    )
    socket_mode: str = setting("660", "permissions of the sockets unix:PATH", file_mode)
    replicas: int = setting(
        0,
        "workers for each model and stage; 0 for the number in its manifest",
        Between(0, 1024),
    )
    front_ends: int = setting(1, "number of front-end processes", Between(1, 64))
    max_body: int = setting(10 * MIB, "largest request body", **a_size(1, 512 * MIB))
    max_answer: int = setting(64 * MIB, "largest response of a model", **a_size(1, 512 * MIB))
    large_body: int = setting(
        64 * KIB, "smallest body or response that is sent through shared memory", **a_size(1, GIB)
    )
    keep_bodies: int = setting(
        0,
        "largest request body kept with crash reports and slow requests; 0 keeps none",
        **a_size(0, 16 * MIB),
    )
    arena: int = setting(
        256 * MIB,
        "shared memory for the large bodies of each model, allocated as needed",
        **a_size(64 * KIB, TIB),
    )
    max_header: int = setting(32 * KIB, "largest header section", **a_size(256, MIB))
    max_target: int = setting(8190, "longest request target", **a_size(16, MIB))
    max_connections: int = setting(
        20_000,
        "open connections of a front-end; each HTTP/2 request counts as another one",
        Between(1, 1_000_000),
    )
    queue: int = setting(1024, "tasks that can wait for a model", Between(1, 1_000_000))
    busy_poll: str = setting(
        "auto",
        "whether workers and front-ends that answer each other quickly wait without sleep, which"
        " takes CPU time: on, off or auto (on without a CPU quota)",
        one_of("auto", "on", "off"),
    )
    header_timeout: float = setting(
        5.0, "longest time for receiving a header section", **a_duration(0.1)
    )
    body_timeout: float = setting(5.0, "longest pause while receiving a body", **a_duration(0.1))
    body_rate: int = setting(
        KIB,
        "slowest body per second, for each body_timeout; 0 for no limit",
        **a_size(0, GIB),
    )
    send_timeout: float = setting(
        30.0, "longest wait for a client that does not read its response", **a_duration(0.1)
    )
    keep_alive: float = setting(75.0, "how long an idle connection is kept", **a_duration())
    predict_timeout: float = setting(
        0.0, "longest prediction; 0 for the limit in the manifest", **a_duration()
    )
    load_timeout: float = setting(
        0.0, "longest load of a model; 0 for the limit in the manifest", **a_duration()
    )
    wake_timeout: float = setting(
        30.0,
        "longest wait of a request for a model that is loaded on demand; then 503",
        **a_duration(0.1),
    )
    drain_delay: float = setting(
        0.0, "how long to keep serving after SIGTERM, while not ready", **a_duration()
    )
    grace: float = setting(30.0, "longest wait for requests in flight at the end", **a_duration())
    memory: int = setting(
        0,
        "memory limit of a front-end: near it, large bodies wait and slow clients are disconnected;"
        " above it, predictions are refused; 0 for the limit of its control group, if there is one",
        **a_size(0, TIB),
    )
    models_memory: int = setting(
        0,
        "memory of the workers of all models: those that may sleep are unloaded to make room, the"
        " least recently used first; 0 for 80 % of the limit of the control group, if there is one",
        **a_size(0, TIB),
    )
    queue_memory: int = setting(
        512 * MIB,
        "memory for waiting bodies in a front-end, for all models",
        **a_size(1, TIB),
    )
    predict_token_file: str = setting(
        "", "file with bearer tokens, one per line; predictions need one of them", resolve=absolute
    )
    manage_token_file: str = setting(
        "",
        "file with bearer tokens, one per line; management over TCP needs one",
        resolve=absolute,
    )
    compression: tuple[str, ...] = setting(
        (),
        "codings for compressed responses, preferred first: gzip, zstd, deflate; with zstd,"
        " requests may be in it too",
        one_of("gzip", "zstd", "deflate"),
    )
    compression_min: int = setting(KIB, "smallest response that is compressed", **a_size(1, GIB))
    http2: bool = setting(True, "enable HTTP/2", switch)
    jobs: int = setting(
        0,
        "largest number of stored jobs (asynchronous predictions); needs servekit-jobs;"
        " 0 disables jobs",
        Between(0, 10_000),
    )
    jobs_size: int = setting(
        256 * MIB,
        "largest total size of job results (files in the run directory)",
        **a_size(KIB, TIB),
    )
    job_ttl: float = setting(300.0, "how long the result of a job is kept", **a_duration(1.0))
    cors_origins: tuple[str, ...] = setting(
        (), "origins of web pages that can use the server (https://app.example); * for all", origin
    )
    trusted_proxies: tuple[str, ...] = setting(
        (),
        "proxies whose X-Forwarded-For and X-Forwarded-Proto are believed: IP addresses, networks,"
        " unix",
        proxy,
    )
    require_plugins: tuple[str, ...] = setting(
        (), "plugins without which the server does not start"
    )
    policy: str = setting(
        "",
        "rules that every archive must pass, separated by commas: signed,no-pickle; plugins"
        " provide them",
        rule_names,
    )
    trusted_keys: tuple[str, ...] = setting(
        (),
        "files of public keys (PEM), or directories of such files, for the rule signed",
        resolve=absolute,
    )
    archive_keys: tuple[str, ...] = setting(
        (),
        "keys of encrypted archives, 64 hexadecimal digits each: files, fd:NUMBER or env:VARIABLE",
        resolve=archive_key_source,
    )
    manage: str = setting(
        "",
        "address for management over TCP; default: only a socket in the run directory",
        address,
    )
    tls_certificate: str = setting(
        "", "file with the certificate chain (PEM); enables TLS", resolve=absolute
    )
    tls_key: str = setting("", "file with the key of the certificate (PEM)", resolve=absolute)
    tls_client_ca: str = setting(
        "",
        "file with the authorities of client certificates (PEM); requires those",
        resolve=absolute,
    )
    worker_user: str = setting(
        "", "user of the workers, or a range 20000-20999 with one for each model; needs root"
    )
    worker_memory: int = setting(
        0,
        "address space of a worker without shared memory (RLIMIT_AS); 0 for no limit",
        **a_size(0, TIB),
    )
    worker_files: int = setting(
        0,
        "open files of a worker (RLIMIT_NOFILE); 0 for no limit",
        Between(0, 1_000_000),
    )
    pass_env: tuple[str, ...] = setting(
        (),
        "additional environment variables for the workers, such as HF_TOKEN or EMB_*",
        variable_pattern,
    )
    reload: bool = setting(
        False, "for development: reload a model whenever one of its files is saved", switch
    )
    dev: bool = setting(
        False,
        "for development: show tracebacks of failed predictions; requires a loopback host",
        switch,
    )
    strict: bool = setting(False, "exit with status 3 if any model cannot be loaded", switch)
    install_requirements: bool = setting(
        False, "install the requirements.txt of an archive into a separate environment", switch
    )
    fetch_assets: bool = setting(
        False, "fetch missing [assets] of a model before it is loaded", switch
    )
    cache_dir: str = setting(
        "", "where archives are unpacked; default: the user's cache directory", resolve=absolute
    )
    run_dir: str = setting(
        "", "parent of the private directory for sockets; default: TMPDIR", resolve=absolute
    )
    state: str = setting(
        "",
        "file that keeps what is changed at run time: versions, traffic, replicas;"
        " default: .servekit-state.json in model_store; without one a restart forgets it",
        resolve=absolute,
    )
    access_log: str = setting(
        "",
        "file for a line of JSON for each response, reopened on SIGHUP; - for standard output",
        resolve=absolute_output,
    )
    log_format: str = setting("text", "text or json", one_of("text", "json"))
    log_level: str = setting(
        "info", "debug, info, warning or error", one_of("debug", "info", "warning", "error")
    )
    log_dir: str = setting(
        "",
        "directory for log files, as lines of JSON: one of the server and one of each model,"
        " beside what is printed",
        resolve=absolute,
    )
    log_file_size: int = setting(
        10 * MIB, "largest log file; a new one is begun then", **a_size(64 * KIB, TIB)
    )
    log_files: int = setting(
        5, "complete log files that are kept, of the server and of each model", Between(1, 100)
    )
    daemons: tuple[DaemonSpec, ...] = ()  #: no option: tables of ``servekit.toml`` alone
    deployments: tuple[Deployment, ...] = ()  #: no option: ``[models.NAME]``, then ``--set``
    #: no option: ``[plugins.NAME]``, then variables, then ``--plugin``
    plugins: tuple[PluginValue, ...] = ()

    @property
    def request_codings(self) -> tuple[str, ...]:
        """The codings that bodies of requests may be in."""
        return tuple(dict.fromkeys((*self.compression, "gzip", "deflate")))

    @property
    def state_file(self) -> str:
        """The path of the state file; "" for none."""
        if self.state or not self.model_store:
            return self.state
        return str(Path(self.model_store) / ".servekit-state.json")


def options() -> list[Option]:
    """Return every option in the order of ``--help``."""
    return [
        Option(name=field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(Settings)
        if field.metadata
    ]
