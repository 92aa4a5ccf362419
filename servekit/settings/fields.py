# SPDX-License-Identifier: Apache-2.0
"""What there is to set: one field each."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servekit.settings.daemons import DaemonSpec
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
    address,
    number,
    one_of,
    origin,
    size,
    switch,
    variable_pattern,
)  # fmt: skip

__all__ = ["PREFIX", "Option", "Settings", "options"]

PREFIX = "SERVEKIT_"  #: of every variable
KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of texts",
}


def unplaced(_base: Path, value: Any) -> Any:
    """Return what is no path as it is."""
    return value


@dataclass(frozen=True, slots=True)
class Option:
    """One setting as its sources see it."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    place: Callable[[Path, Any], Any]  #: makes a path absolute
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
        """Whether it takes several texts."""
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
        """What its value has to be, in words."""
        return "a size" if self.unit == "bytes" else KINDS[type(self.default)]

    @property
    def range(self) -> str:
        """``1 to 512MiB``; "" for what is no number."""
        if not isinstance(self.parse, Between):
            return ""
        return f"{self.parse.show(self.parse.low)} to {self.parse.show(self.parse.high)}"


def setting(
    default: Any,
    help: str,  # noqa: A002
    parse: Callable[[str], Any] = str,
    unit: str = "",
    place: Callable[[Path, Any], Any] = unplaced,
) -> Any:
    """Declare one field of ``Settings``; a path says how it is made absolute (*place*)."""
    facts = {"help": help, "parse": parse, "unit": unit, "place": place}
    return dataclasses.field(default=default, metadata=facts)


def a_size(low: int, high: int) -> dict[str, Any]:
    """Return what makes a setting a size."""
    return {"parse": Between(low, high, size), "unit": "bytes"}


def a_duration(low: float = 0.0) -> dict[str, Any]:
    """Return what makes a setting a duration: a day at most."""
    return {"parse": Between(low, DAY_S, number), "unit": "seconds"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an operator decides. Sizes are bytes and durations are seconds."""

    models: tuple[str, ...] = setting(
        (),
        "archives or model directories to serve; NAME=PATH serves one under another name",
        place=absolute_model,
    )
    host: str = setting("127.0.0.1", "address to listen on")
    port: int = setting(8080, "TCP port; 0 takes a free one", Between(0, 65535))
    replicas: int = setting(
        0, "worker processes per model, and per stage; 0 takes their own numbers", Between(0, 1024)
    )
    front_ends: int = setting(1, "front-end processes", Between(1, 64))
    max_body: int = setting(10 * MIB, "largest request body", **a_size(1, 512 * MIB))
    max_answer: int = setting(64 * MIB, "largest answer", **a_size(1, 512 * MIB))
    large_body: int = setting(
        64 * KIB, "bodies and answers from this size on go by shared memory", **a_size(1, GIB)
    )
    arena: int = setting(
        256 * MIB,
        "shared memory for the large bodies of one model, taken as needed",
        **a_size(64 * KIB, TIB),
    )
    max_header: int = setting(32 * KIB, "largest header section", **a_size(256, MIB))
    max_target: int = setting(8190, "longest request target", **a_size(16, MIB))
    max_connections: int = setting(
        20_000,
        "open connections per front-end; a request of HTTP/2 counts as one more",
        Between(1, 1_000_000),
    )
    queue: int = setting(1024, "tasks that may wait for one model", Between(1, 1_000_000))
    header_timeout: float = setting(
        5.0, "longest wait for a whole header section", **a_duration(0.1)
    )
    body_timeout: float = setting(5.0, "longest pause within a body", **a_duration(0.1))
    body_rate: int = setting(
        KIB, "slowest body per second, over each body_timeout anew; 0 takes any", **a_size(0, GIB)
    )
    send_timeout: float = setting(
        30.0, "longest wait for a client to take its answer", **a_duration(0.1)
    )
    keep_alive: float = setting(75.0, "how long an idle connection is kept", **a_duration())
    predict_timeout: float = setting(
        0.0, "longest prediction; 0 takes each model's own", **a_duration()
    )
    load_timeout: float = setting(
        0.0, "longest load of a model; 0 takes each model's own", **a_duration()
    )
    drain_delay: float = setting(
        0.0, "how long to serve on after SIGTERM while not ready", **a_duration()
    )
    grace: float = setting(30.0, "longest wait for what was taken before the stop", **a_duration())
    memory: int = setting(
        0,
        "memory of a front-end: near it large bodies wait and slow clients are ended, above it no"
        " prediction is taken; 0 takes the limit of its control group, if there is one",
        **a_size(0, TIB),
    )
    queue_memory: int = setting(
        512 * MIB, "bodies that may wait in a front-end, shared among its models", **a_size(1, TIB)
    )
    predict_token_file: str = setting(
        "", "file of bearer tokens, one a line; a prediction needs one of them", place=absolute
    )
    manage_token_file: str = setting(
        "", "file of bearer tokens, one a line; management over TCP needs one", place=absolute
    )
    compression: tuple[str, ...] = setting(
        (),
        "codings of requests, and of answers for who accepts them, best first: gzip, zstd",
        one_of("gzip", "zstd"),
    )
    compression_min: int = setting(KIB, "smallest answer that is compressed", **a_size(1, GIB))
    http2: bool = setting(True, "speak HTTP/2 with clients that ask for it", switch)
    jobs: int = setting(
        0,
        "jobs, predictions that clients come back for, that are kept at once; 0 takes none",
        Between(0, 10_000),
    )
    jobs_size: int = setting(
        256 * MIB, "answers of jobs, in files of the run directory", **a_size(KIB, TIB)
    )
    job_ttl: float = setting(300.0, "how long the answer of a job is kept", **a_duration(1.0))
    cors_origins: tuple[str, ...] = setting(
        (), "origins whose pages may use this server, https://app.example; * for all", origin
    )
    require_plugins: tuple[str, ...] = setting(
        (), "plugins that must be there and whole, else the server does not start"
    )
    manage: str = setting(
        "",
        "HOST:PORT for management, over TCP; default: only a socket in the run directory",
        address,
    )
    tls_certificate: str = setting(
        "", "file of the certificate chain, PEM; turns TLS on", place=absolute
    )
    tls_key: str = setting("", "file of the certificate's key, PEM", place=absolute)
    tls_client_ca: str = setting(
        "", "file of the authorities that clients' certificates must come from, PEM", place=absolute
    )
    worker_user: str = setting(
        "", "user that the workers run as, or 20000-20999: one of these for each model; needs root"
    )
    worker_memory: int = setting(
        0,
        "address space of a worker, shared memory not counted (RLIMIT_AS); 0 sets no limit",
        **a_size(0, TIB),
    )
    worker_files: int = setting(
        0, "descriptors of a worker (RLIMIT_NOFILE); 0 sets no limit", Between(0, 1_000_000)
    )
    pass_env: tuple[str, ...] = setting(
        (),
        "variables of the server's environment that workers see too, such as HF_TOKEN or EMB_*",
        variable_pattern,
    )
    reload: bool = setting(
        False, "for development: load a model anew whenever one of its files is saved", switch
    )
    dev: bool = setting(
        False,
        "for development: answers of failed predictions hold tracebacks; host must be loopback",
        switch,
    )
    strict: bool = setting(False, "exit with status 3 if any model fails to load", switch)
    install_requirements: bool = setting(
        False, "install an archive's requirements.txt into an environment of its own", switch
    )
    fetch_assets: bool = setting(
        False, "fetch a model's [assets] that are not in the cache, before it is loaded", switch
    )
    cache_dir: str = setting(
        "", "where archives are unpacked; default: the user's cache directory", place=absolute
    )
    run_dir: str = setting(
        "", "parent of the private directory for sockets; default: TMPDIR", place=absolute
    )
    access_log: str = setting(
        "",
        "file that each answer adds a line of JSON to, opened anew on SIGHUP; - is standard output",
        place=absolute_output,
    )
    log_format: str = setting("text", "text or json", one_of("text", "json"))
    log_level: str = setting(
        "info", "debug, info, warning or error", one_of("debug", "info", "warning", "error")
    )
    daemons: tuple[DaemonSpec, ...] = ()  #: no option: tables of ``servekit.toml`` alone


def options() -> list[Option]:
    """Return every option in the order of ``--help``."""
    return [
        Option(name=field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(Settings)
        if field.metadata
    ]
