# SPDX-License-Identifier: Apache-2.0
"""The environment variables of a child."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from servekit.settings.fields import PREFIX
from servekit.supervisor.os.guard import MARK
from servekit.supervisor.os.user import User

__all__ = ["KEPT", "THREAD_VARIABLES", "prepare_environment", "withheld", "worker_environment"]

#: variables that workers get from our environment: paths, locales, devices and numbers. Whole
#: names only, since a prefix could let a secret through
KEPT: Final = {
    "of the system": (
        *("HOME", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "LD_LIBRARY_PATH"),
        *("LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY"),
        *("LC_NUMERIC", "LC_TIME"),
        *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
        *("GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_"),
        "MALLOC_TRIM_THRESHOLD_",
    ),
    "of Python": (
        *("PYTHONASYNCIODEBUG", "PYTHONDEVMODE", "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER"),
        *("PYTHONHASHSEED", "PYTHONHOME", "PYTHONIOENCODING", "PYTHONMALLOC", "PYTHONNOUSERSITE"),
        *("PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONTRACEMALLOC"),
        *("PYTHONUNBUFFERED", "PYTHONUSERBASE", "PYTHONUTF8", "PYTHONWARNINGS"),
    ),
    "of devices": (
        *("CUDA_CACHE_DISABLE", "CUDA_CACHE_MAXSIZE", "CUDA_CACHE_PATH"),
        *("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_LAUNCH_BLOCKING"),
        *("CUDA_MODULE_LOADING", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_PATH"),
        *("CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_TF32_OVERRIDE"),
        *("NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    ),
    "of threads": (
        *("MKL_DYNAMIC", "MKL_NUM_THREADS", "MKL_THREADING_LAYER", "NUMEXPR_MAX_THREADS"),
        *("NUMEXPR_NUM_THREADS", "OMP_DYNAMIC", "OMP_MAX_ACTIVE_LEVELS", "OMP_NUM_THREADS"),
        *("OMP_PLACES", "OMP_PROC_BIND", "OMP_SCHEDULE", "OMP_STACKSIZE", "OMP_THREAD_LIMIT"),
        *("OMP_WAIT_POLICY", "OPENBLAS_CORETYPE", "OPENBLAS_MAIN_FREE", "OPENBLAS_NUM_THREADS"),
    ),
    "of Hugging Face": (
        *("HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE", "HF_HOME", "HF_HUB_CACHE"),
        *("HF_HUB_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_OFFLINE"),
    ),
}
KEPT_NAMES: Final = {MARK}.union(*KEPT.values())
#: variables of shells, sessions, service managers, containers and build tools. The log says at the
#: usual level that workers lack all others: an operator may have set them for a model
SURROUNDINGS: Final = (
    *("COLORTERM", "COLUMNS", "DBUS_*", "DEBIAN_FRONTEND", "DEBUGINFOD_URLS", "DISPLAY", "EDITOR"),
    *(
        "GPG_*",
        "HIST*",
        "HOSTNAME",
        "HOSTTYPE",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LESS*",
        "LINES",
    ),
    *("LISTEN_*", "LS_COLORS", "MACHTYPE", "MAIL", "MAIN*PID", "MANAGERPID", "MEMORY_PRESSURE_*"),
    *("NOTIFY_SOCKET", "OLDPWD", "OSTYPE", "PAGER", "PS[1-4]", "PWD", "SHELL", "SHLVL", "SSH_*"),
    *(
        "SUDO_*",
        "SYSTEMD_*",
        "TERM",
        "TERM_*",
        "VISUAL",
        "VTE_*",
        "WATCHDOG_*",
        "WAYLAND_*",
        "XDG_*",
    ),
    *("KUBERNETES_*", "*_SERVICE_HOST", "*_SERVICE_PORT", "*_SERVICE_PORT_*"),
    *("*_PORT_[0-9]*_TCP*", "*_PORT_[0-9]*_UDP*", "container"),
    *(
        "CONDA_*",
        "MAKE*",
        "MFLAGS",
        "PIP_*",
        "PYTEST_*",
        "PYTHON_SHA256",
        "PYTHON_VERSION",
        "UV_*",
        "VIRTUAL_ENV*",
    ),
)
#: how libraries for linear algebra learn their number of threads
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def worker_environment(
    ours: Mapping[str, str],
    threads: int,
    own: Mapping[str, str],
    user: User | None = None,
    passed: Sequence[str] = (),
) -> dict[str, str]:
    """Return the environment of a worker: no secret of the operator, only what libraries need.

    :param own: the manifest's ``worker.env``, which takes precedence.
    :param passed: patterns of further names to pass on; our own settings are never passed on.
    """
    kept = {name: text for name, text in ours.items() if _is_kept(name, passed)}
    defaults = dict.fromkeys(THREAD_VARIABLES, str(threads))
    # unbuffered, so that a crash report has the last lines
    account = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name} if user else {}
    return defaults | {"PYTHONUNBUFFERED": "1"} | kept | account | dict(own)


def _is_kept(name: str, passed: Iterable[str]) -> bool:
    return name in KEPT_NAMES or (not name.startswith(PREFIX) and _matches(name, passed))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def withheld(ours: Iterable[str], passed: Sequence[str]) -> dict[str, list[str]]:
    """Return the names in *ours* that no worker sees, by the level to log them at."""
    names = sorted(each for each in ours if not _is_kept(each, passed))
    services = {name.removesuffix("SERVICE_HOST") + "PORT" for name in names}  # Kubernetes has both
    found: dict[str, list[str]] = {}
    for name in names:
        if not name.startswith((PREFIX, "_")):
            is_usual = name in services or _matches(name, SURROUNDINGS)
            found.setdefault("debug" if is_usual else "info", []).append(name)
    return found


def prepare_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a prepare child: pip needs everything except our settings."""
    return {name: text for name, text in ours.items() if not name.startswith("SERVEKIT_")}
