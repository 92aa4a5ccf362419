# SPDX-License-Identifier: Apache-2.0
"""Each check finds its fault where it is planted, and nothing on a machine that is well."""

import json
import os
import resource
import socket
import types
from collections import namedtuple
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from servekit_archiver import build_archive, unpack
from servekit_archiver.names import MANIFEST

from servekit.cli.doctor import gpus, machine, packages
from servekit.cli.doctor.examination import check_setup
from servekit.cli.doctor.setup import Setup
from servekit.plugins import InstalledPlugin, create_plugin_manager
from servekit.settings import Settings
from servekit.settings.model_tables import read_assignments

GIB = 1 << 30
MEMINFO = (
    "MemTotal: {total} kB\nMemAvailable: {free} kB\nSwapTotal: 1000000 kB\nSwapFree: {swap} kB\n"
)
FileSystem = namedtuple("FileSystem", "f_frsize f_blocks f_bavail f_files f_favail")


def meminfo(*, total=32, free=16, swap=1_000_000):
    return MEMINFO.format(total=int(total * GIB) // 1024, free=int(free * GIB) // 1024, swap=swap)


@pytest.fixture
def root(tmp_path):
    """A machine that is well."""
    files = {
        "proc/meminfo": meminfo(),
        "proc/sys/net/core/somaxconn": "4096\n",
        "proc/sys/vm/overcommit_memory": "0\n",
        "proc/self/cgroup": "0::/box\n",
        "sys/fs/cgroup/box/memory.max": "max\n",
        "sys/fs/cgroup/box/pids.max": "max\n",
    }
    for name, text in files.items():
        write(tmp_path / "root", name, text)
    return tmp_path / "root"


def write(root, name, text=""):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def well(root, tmp_path, monkeypatch):
    """Return ``Setup`` of a machine that is well, with settings."""
    limits = {
        resource.RLIMIT_NOFILE: 1 << 20,
        resource.RLIMIT_NPROC: 1 << 16,
        resource.RLIMIT_CORE: 0,
    }
    monkeypatch.setattr(resource, "getrlimit", lambda name: (limits[name], limits[name]))
    monkeypatch.setattr(os, "statvfs", lambda path: FileSystem(4096, GIB, GIB, 1000, 1000))
    monkeypatch.setattr(machine, "usable_cores", lambda: len(os.sched_getaffinity(0)))
    monkeypatch.setattr(packages, "installed_plugins", list)
    for name in ("run", "cache"):
        (tmp_path / name).mkdir(mode=0o700)

    def make(environment=(), owned=(), **settings):
        own = {"port": 0, "run_dir": "/tmp", "cache_dir": str(tmp_path / "cache")}
        return Setup(Settings(**own | settings), frozenset(owned), root, dict(environment))

    return types.SimpleNamespace(make=make, limits=limits)


def found(setup, check):
    """Return severity and text of what *check* finds."""
    (planned,) = [each for each in check_setup(setup) if each.name == check]
    return [(each.severity, each.text) for each in planned.examine().findings]


def test_a_machine_that_is_well_has_no_findings(well):
    assert [each.name for each in check_setup(well.make()) if each.examine().findings] == []


def test_every_finding_has_a_meaning(well, root):
    write(root, "proc/meminfo", meminfo(free=0.1))
    planned = check_setup(well.make(host="0.0.0.0", run_dir="/nowhere"))
    rows = [each.examine() for each in planned]
    findings = [each for row in rows for each in row.findings]

    assert len(findings) >= 3
    assert all(each.meaning for each in findings)


@pytest.mark.parametrize(
    ("check", "file", "text", "severity", "words"),
    [
        ("memory", "proc/meminfo", meminfo(free=0.1), "warning", "is available"),
        ("swap", "proc/meminfo", meminfo(swap=0), "warning", "swap space is in use"),
        ("kernel", "proc/sys/net/core/somaxconn", "128", "warning", "somaxconn is 128"),
        ("kernel", "proc/sys/vm/overcommit_memory", "2", "warning", "overcommit_memory is 2"),
        ("processes", "sys/fs/cgroup/box/pids.max", "100", "warning", "can have 100 processes"),
        ("memory for bodies", "proc/meminfo", meminfo(total=0.5), "warning", "waiting bodies"),
        ("gpus", "proc/driver/nvidia/version", "", "warning", "no device in /dev"),
    ],
)  # fmt: skip
def test_faults_of_the_kernels_files(well, root, check, file, text, severity, words):
    write(root, file, text)
    ((found_severity, found_text),) = found(well.make(), check)

    assert found_severity == severity
    assert words in found_text


def test_a_control_group_that_is_nearly_full(well, root):
    write(root, "sys/fs/cgroup/box/memory.max", str(GIB * 4))
    write(root, "sys/fs/cgroup/box/memory.current", str(GIB * 4 - 1000))

    assert found(well.make(), "memory") == [
        ("error", "the control group uses 4.3 GB of the 4.3 GB that it may use"),
    ]


def test_a_quota_of_processors(well, monkeypatch):
    monkeypatch.setattr(machine, "usable_cores", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))

    assert found(well.make(), "cores") == [
        ("info", "a quota allows 1 of the 8 processors that programs see"),
    ]


@pytest.mark.parametrize(
    ("limit", "value", "check", "severity"),
    [
        (resource.RLIMIT_NOFILE, 1024, "open files", "warning"),
        (resource.RLIMIT_NPROC, 100, "processes", "warning"),
        (resource.RLIMIT_CORE, -1, "core files", "info"),
    ],
    ids=["open files", "processes", "core files"],
)
def test_limits_of_this_process(well, monkeypatch, limit, value, check, severity):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    well.limits[limit] = value

    assert [each for each, _ in found(well.make(), check)] == [severity]


@pytest.mark.parametrize(
    ("space", "severities"),
    [
        pytest.param(FileSystem(1, GIB, GIB // 2, 9, 9), ["warning"] * 2, id="little space"),
        pytest.param(FileSystem(1, GIB, 1000, 9, 9), ["error"] * 2, id="no space"),
        pytest.param(FileSystem(1, GIB, 9 * GIB, 9, 0), ["error"] * 2, id="no file names"),
        pytest.param(FileSystem(1, GIB, 9 * GIB, 0, 0), [], id="a file system without a limit"),
    ],
)
def test_disks(well, monkeypatch, space, severities):
    monkeypatch.setattr(os, "statvfs", lambda path: space)

    assert [each for each, _ in found(well.make(), "disks")] == severities


def test_little_shared_memory(well, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: FileSystem(4096, 16384, GIB, 9, 9))

    ((severity, text),) = found(well.make(), "shared memory")
    assert (severity, text.endswith("has 67.1 MB")) == ("warning", True)


# ---------------------------------------------------------------- addresses


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("key", ["port", "manage", "bind"])
def test_a_port_that_is_taken(well, taken, key):
    value = {"port": taken, "manage": f"127.0.0.1:{taken}", "bind": (f"127.0.0.1:{taken}",)}[key]

    assert found(well.make(**{key: value}), "ports") == [
        ("error", f"port {taken} of 127.0.0.1 is taken"),
    ]
    assert found(well.make(owned=[taken], **{key: value}), "ports") == []
    assert found(well.make(owned=[1], **{key: value}), "ports") != []


def test_an_address_of_another_machine(well):
    ((severity, text),) = found(well.make(host="192.0.2.1"), "ports")

    assert (severity, text) == ("error", "port 0 of 192.0.2.1: Cannot assign requested address")


def test_a_unix_socket_that_is_answered(well, tmp_path):
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        taken = found(well.make(bind=(f"unix:{path}",)), "unix sockets")
        own = found(well.make(owned=[str(path)], bind=(f"unix:{path}",)), "unix sockets")

    assert (taken, own) == ([("error", f"{path}: another process listens there")], [])
    assert found(well.make(bind=(f"unix:{tmp_path}/new.sock",)), "unix sockets") == []


def test_a_unix_socket_in_a_directory_that_does_not_exist(well, tmp_path):
    path = tmp_path / "none" / "s.sock"

    ((severity, text),) = found(well.make(bind=(f"unix:{path}",)), "unix sockets")
    assert (severity, text.endswith(f"cannot make files in {path.parent}")) == ("error", True)


# ---------------------------------------------------------------- packages, plugins, GPUs


class FakeDistribution:
    def __init__(self, requires, python=">=3.11"):
        self.requires, self.metadata = requires, {"Requires-Python": python}


@pytest.mark.parametrize(
    ("distribution", "text"),
    [
        (FakeDistribution(["numpy>=1", "none; extra == 'x'"]), None),
        (FakeDistribution(["numpy>=99"]), "x needs numpy>=99: "),
        (FakeDistribution(["no-such-package>=1"]), "x needs no-such-package>=1: not installed"),
        (FakeDistribution([], ">=9"), "x needs Python >=9, and this is "),
    ],
    ids=["fine", "too old", "missing", "another Python"],
)
def test_versions(well, monkeypatch, distribution, text):
    plugin = InstalledPlugin("x", "x 1.0", None)
    monkeypatch.setattr(packages, "installed_plugins", lambda: [plugin])
    monkeypatch.setattr(packages, "OWN", ())
    installed = packages.metadata.distribution
    monkeypatch.setattr(
        packages.metadata,
        "distribution",
        lambda name: distribution if name == "x" else installed(name),
    )
    texts = [text for _, text in found(well.make(), "versions")]

    assert len(texts) == (0 if text is None else 1)
    assert text is None or texts[0].startswith(text)


def test_plugins_that_are_broken_or_missing_or_offer_the_same(well, monkeypatch):
    def offering(name):
        module = types.SimpleNamespace(register_services=lambda: {"echo": f"{name}:Echo"})
        return InstalledPlugin(name, f"servekit-{name} 1.0", module, hooks=("register_services",))

    broken = InstalledPlugin("c", "servekit-c 1.0", None, "ImportError: no c")
    plugins = [offering("a"), offering("b"), broken]
    monkeypatch.setattr(packages, "installed_plugins", lambda: plugins)
    texts = [text for _, text in found(well.make(require_plugins=("d",)), "plugins")]

    assert "plugin a: service echo: b offers it too" in texts
    assert "plugin c: ImportError: no c" in texts
    assert "require_plugins names d, which is not installed" in texts


@pytest.mark.parametrize(
    ("problem", "fix"),
    [
        ("ImportError: no c", "pip install --upgrade servekit-c, or pip uninstall servekit-c"),
        (
            "ModuleNotFoundError: No module named 'torch'",
            "pip install torch, or pip uninstall servekit-c",
        ),
    ],
)
def test_what_mends_a_plugin(well, monkeypatch, problem, fix):
    plugin = InstalledPlugin("c", "servekit-c 1.0", None, problem)
    monkeypatch.setattr(packages, "installed_plugins", lambda: [plugin])

    assert [each.fix for each in packages.plugins(well.make())] == [fix]


class FakeNvml:
    class NVMLError(Exception):
        pass

    def __init__(self, count=1, error=""):
        self._count, self._error = count, error

    def nvmlInit(self):  # noqa: N802 - its name
        if self._error:
            raise self.NVMLError(self._error)

    def nvmlDeviceGetCount(self):  # noqa: N802 - its name
        return self._count


@pytest.mark.parametrize(
    ("nvml", "visible", "severity", "words"),
    [
        (None, None, "info", "nvidia-ml-py is not installed"),
        (FakeNvml(error="version mismatch"), None, "error", "does not answer: version mismatch"),
        (FakeNvml(2), "0,2", "error", "names device 2, and there are 2"),
        (FakeNvml(2), "", "info", "hides all 2 GPUs"),
        (FakeNvml(2), "0,1", None, ""),
        (FakeNvml(2), None, None, ""),
    ],
    ids=["no library", "driver", "no such device", "hidden", "visible", "all"],
)
def test_gpus(well, root, monkeypatch, nvml, visible, severity, words):
    def load(name):
        if nvml is None:
            raise ImportError(name)
        return nvml

    write(root, "dev/nvidia0")
    monkeypatch.setattr(gpus, "import_module", load)
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    results = found(well.make(environment), "gpus")

    assert [each for each, _ in results] == ([severity] if severity else [])
    assert all(words in text for _, text in results)


# ---------------------------------------------------------------- files


def test_directories_that_cannot_be_written_or_are_open_to_all(well, tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    setup = well.make(run_dir="/nowhere", cache_dir=str(tmp_path / "open"))

    assert found(setup, "directories") == [
        ("error", "run_dir /nowhere: this user cannot write there"),
        ("error", f"cache_dir {tmp_path}/open: every user of this machine can write there"),
    ]


def test_a_run_directory_whose_path_is_too_long(well, tmp_path):
    path = tmp_path / ("x" * 90)
    path.mkdir()

    ((severity, text),) = found(well.make(run_dir=str(path)), "directories")
    assert (severity, text.endswith("too long for the path of a socket")) == ("error", True)


@pytest.fixture
def unpacked(tmp_path):
    """Return the directory of an archive in the cache."""
    directory = tmp_path / "digits"
    directory.mkdir()
    (directory / "service.py").write_text("class Digits: ...\n")
    (directory / "model.toml").write_text('service = "service:Digits"\n')
    build_archive(directory, tmp_path / "digits.mar")
    return unpack(tmp_path / "digits.mar", tmp_path / "cache").directory


@pytest.mark.parametrize("fault", ["", "missing", "short", "manifest"])
def test_entries_of_the_cache_that_are_corrupt(well, unpacked, fault):
    for path in (unpacked, *unpacked.rglob("*")):
        path.chmod(0o700)
    if fault == "missing":
        (unpacked / "service.py").unlink()
    elif fault == "short":
        (unpacked / "service.py").write_text("class")
    elif fault == "manifest":
        (unpacked / MANIFEST).write_text("{")
    expected = {
        "missing": "no service.py",
        "short": "service.py has 5 bytes in place of 18",
        "manifest": f"{MANIFEST} is not JSON",
    }

    assert found(well.make(), "cache") == (
        [("error", f"{unpacked}: {expected[fault]}")] if fault else []
    )


def test_an_environment_that_is_incomplete(well, tmp_path):
    (tmp_path / "cache" / "environments" / ("b" * 32)).mkdir(parents=True)

    ((severity, text),) = found(well.make(), "cache")
    assert (severity, text.endswith("the environment is incomplete")) == ("error", True)


def test_a_large_cache(well, unpacked, monkeypatch):
    monkeypatch.setattr("servekit.cli.doctor.files.LARGE_CACHE", 0)
    monkeypatch.setattr("servekit.cli.doctor.files.UNUSED_S", -10)

    ((severity, text),) = found(well.make(), "cache")
    assert (severity, text.startswith("the cache has ")) == ("info", True)


def test_secrets_that_are_open_or_missing(well, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("secret\n")
    tokens.chmod(0o644)
    assert found(well.make(predict_token_file=str(tokens)), "secrets") == [
        ("error", f"{tokens} is open to every user of this machine"),
    ]

    tokens.chmod(0o600)
    assert found(well.make(predict_token_file=str(tokens)), "secrets") == []

    tokens.unlink()
    ((severity, text),) = found(well.make(predict_token_file=str(tokens)), "secrets")
    assert (severity, str(tokens) in text) == ("error", True)


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (-3, ("error", "certificate has expired")),
        (5, ("warning", "expires in 5 days")),
        (90, None),
    ],
)
@pytest.mark.parametrize("client_ca", [False, True])
def test_a_certificate_that_expires(well, tmp_path, days, expected, client_ca):
    authority, after = trustme.CA(), datetime.now(UTC) + timedelta(days=days, hours=1)
    issued = authority.issue_cert("localhost", not_after=after)
    certificate, key, ca = (tmp_path / f"{name}.pem" for name in ("server", "key", "ca"))
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    key.chmod(0o600)
    asked = {"tls_client_ca": str(ca)} if client_ca else {}
    setup = well.make(tls_certificate=str(certificate), tls_key=str(key), **asked)

    wanted = [(expected[0], f"{certificate}: {expected[1]}")] if expected else []
    assert found(setup, "secrets") == wanted


# ---------------------------------------------------------------- settings


def model(tmp_path, batching=""):
    directory = tmp_path / "digits"
    directory.mkdir()
    (directory / "service.py").write_text("class Digits: ...\n")
    (directory / "model.toml").write_text(f'service = "service:Digits"\n{batching}')
    return str(directory)


@pytest.mark.parametrize(
    ("batching", "assigned", "text"),
    [
        ("", [], None),
        ("[batching]\nmax_delay_ms = 5\nmax_batch_size = 1\n", [], "max_batch_size is 1"),
        ("[batching]\nmax_delay_ms = 5\n", [], None),
        ("", ["digits.threads=200", "digits.replicas=2"], "threads x replicas of the models are"),
        ("", ["digits.threads=1"], None),
        ("surprise = 1\n", [], "surprise"),
    ],
    ids=["fine", "delay alone", "delay and batches", "many threads", "few threads", "bad model"],
)  # fmt: skip
def test_models(well, tmp_path, batching, assigned, text):
    deployments = tuple(read_assignments(assigned))
    settings = {"models": (model(tmp_path, batching),), "deployments": deployments}
    results = found(well.make(**settings), "models")

    assert len(results) == (0 if text is None else 1)
    assert text is None or text in results[0][1]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ('{"format": 1, "models": [%s]}', None),
        ('{"format": 1, "models": []}', "no model is called 'digits'"),
        ("{", "state.json"),
    ],
    ids=["loaded at run time", "not loaded", "half a file"],
)
def test_settings_of_a_model_that_the_state_file_has(well, tmp_path, state, words):
    path = model(tmp_path, "")
    loaded = {"source": {"path": path, "name": "digits"}, "version": "1.0"}
    saved = json.dumps({"configured": "", "name": "digits", "default": loaded})
    file = tmp_path / "state.json"
    file.write_text(state.replace("%s", saved))
    deployments = tuple(read_assignments(["digits.replicas=2"]))
    results = found(well.make(state=str(file), deployments=deployments), "models")

    assert [severity for severity, _ in results] == ["error"] * (words is not None)
    assert all(words in text for _, text in results)


def test_a_model_that_does_not_exist(well, tmp_path):
    ((severity, _),) = found(well.make(models=(str(tmp_path / "none.mar"),)), "models")

    assert severity == "error"


@pytest.mark.parametrize(
    ("host", "token", "severity"),
    [
        ("127.0.0.1", "secret", None),
        ("localhost", "", None),
        ("0.0.0.0", "secret", "warning"),
        ("0.0.0.0", "", "info"),
    ],
)
def test_access(well, host, token, severity):
    environment = {"SERVEKIT_PREDICT_TOKEN": token} if token else {}
    results = found(well.make(environment, host=host), "access")

    assert [each for each, _ in results] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("settings", "environment", "words"),
    [
        ({}, {}, []),
        ({"predict_timeout": 300.0}, {}, ["predict_timeout is 300 s"]),
        ({"keep_alive": 5.0}, {}, ["keep_alive is 5 s"]),
        ({"grace": 20.0}, {"KUBERNETES_SERVICE_HOST": "x"}, ["drain_delay is 0"]),
        ({"drain_delay": 5.0}, {"KUBERNETES_SERVICE_HOST": "x"}, ["drain_delay and grace are 35"]),
        ({"drain_delay": 5.0, "grace": 20.0}, {"KUBERNETES_SERVICE_HOST": "x"}, []),
    ],
    ids=["fine", "predict_timeout", "keep_alive", "no drain delay", "long grace", "fine in a pod"],
)
def test_timeouts(well, settings, environment, words):
    texts = [text for _, text in found(well.make(environment, **settings), "timeouts")]

    assert len(texts) == len(words)
    assert all(text.startswith(word) for text, word in zip(texts, words, strict=True))


def test_a_check_that_fails_is_a_finding(well, monkeypatch):
    def fail(name):
        raise RuntimeError("odd machine")

    monkeypatch.setattr(resource, "getrlimit", fail)

    assert found(well.make(), "open files") == [
        ("warning", "the check cannot be made: RuntimeError: odd machine"),
    ]


def test_plugins_contribute_checks(well, monkeypatch):
    from servekit import hookimpl
    from servekit.cli.doctor import examination
    from servekit.extension import Diagnosis

    class Paint:
        @hookimpl
        def check_setup(self, settings):
            return [Diagnosis(severity="info", text=f"port {settings.port}")]

    class Odd:
        @hookimpl
        def check_setup(self, settings):
            raise OSError("no paint")

    manager = create_plugin_manager(discover=False)
    manager.register(Paint(), "paint")
    manager.register(Odd(), "odd")
    monkeypatch.setattr(examination, "create_plugin_manager", lambda: manager)
    rows = [each.examine() for each in examination.check_plugins(well.make())]

    assert json.dumps([(row.check, [each.text for each in row.findings]) for row in rows]) == (
        '[["plugin odd", ["the check cannot be made: OSError: no paint"]],'
        ' ["plugin paint", ["port 0"]]]'
    )
