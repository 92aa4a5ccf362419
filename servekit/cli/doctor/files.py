# SPDX-License-Identifier: Apache-2.0
"""Checks of the cache, of directories, and of files of keys and tokens."""

import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import time
from typing import Final

from servekit_archiver import default_cache_dir
from servekit_archiver.cli.output import human_bytes
from servekit_archiver.names import MANIFEST

from servekit.cli.cached.entries import ASSET, ENVIRONMENT, MODEL, CacheEntry, find_entries
from servekit.cli.doctor.setup import Check, Setup
from servekit.errors import StartupError
from servekit.extension.checks import Diagnosis
from servekit.settings.archive_keys import read_archive_keys
from servekit.settings.tokens import open_files, read_tokens
from servekit.settings.values import GIB
from servekit.supervisor.os.run_directory import LONGEST_NAME, MAX_SOCKET_PATH, PREFIX

__all__ = ["FILE_CHECKS"]

KINDS: Final = (MODEL, ASSET, ENVIRONMENT)
LARGE_CACHE: Final = 20 * GIB
UNUSED_S: Final = 30 * 86400
SOON_DAYS: Final = 14
RANDOM_NAME: Final = len(PREFIX) + 8


def directories(setup: Setup) -> Iterator[Diagnosis]:
    """Look whether the server can write where it must, and others cannot."""
    settings = setup.settings
    run_dir = Path(settings.run_dir or tempfile.gettempdir())
    longest = len(os.fsencode(run_dir)) + 1 + RANDOM_NAME + LONGEST_NAME
    if longest > MAX_SOCKET_PATH:
        yield Diagnosis(
            severity="error",
            text=f"run_dir {run_dir}: too long for the path of a socket",
            meaning="The server does not start.",
            fix="--run-dir /run/servekit",
        )
    yield from _writable("run_dir", run_dir, is_shared=True)
    cache = _cache(setup)
    if cache.exists():
        yield from _writable("cache_dir", cache, is_shared=False)
    if settings.log_dir and Path(settings.log_dir).exists():
        yield from _writable("log_dir", Path(settings.log_dir), is_shared=False)


def _writable(name: str, path: Path, *, is_shared: bool) -> Iterator[Diagnosis]:
    """Look at one directory. *is_shared*: others may write to it if it is sticky, like /tmp."""
    if not os.access(path, os.W_OK | os.X_OK):
        yield Diagnosis(
            severity="error",
            text=f"{name} {path}: this user cannot write there",
            meaning="The server does not start, or cannot load models.",
            fix=f"install -d -o $USER {path}, or another --{name.replace('_', '-')}",
        )
        return
    mode = path.stat().st_mode
    is_open = mode & stat.S_IWOTH and not (is_shared and mode & stat.S_ISVTX)
    if is_open:
        yield Diagnosis(
            severity="error",
            text=f"{name} {path}: every user of this machine can write there",
            meaning="They can replace models, which then run with the rights of the server.",
            fix=f"chmod o-w {path}",
        )


def cache(setup: Setup) -> Iterator[Diagnosis]:
    """Look for entries of the cache that are not whole, and for its size."""
    entries = find_entries([_cache(setup)], KINDS)
    for entry in entries:
        if not entry.is_used and (problem := _problem(entry)):
            yield Diagnosis(
                severity="error",
                text=f"{entry.path}: {problem}",
                meaning="A model that needs it fails, or makes it again.",
                fix=f"rm -r {entry.path}",
            )
    size = sum(entry.size_bytes for entry in entries)
    unused = [entry for entry in entries if entry.last_used < time() - UNUSED_S]
    if size > LARGE_CACHE and unused:
        stale = sum(entry.size_bytes for entry in unused if not entry.is_used)
        yield Diagnosis(
            severity="info",
            text=f"the cache has {human_bytes(size)}, of which {human_bytes(stale)} were not used"
            " for 30 days",
            meaning="What is removed is made again when a model needs it.",
            fix="servekit cache prune --unused-for 30",
        )


def _problem(entry: CacheEntry) -> str:
    """Return what is wrong with an entry, as far as sizes tell, or ""."""
    if entry.kind == ENVIRONMENT:
        return "the environment is incomplete" if not entry.facts else ""
    try:
        manifest = json.loads((entry.path / MANIFEST).read_bytes())
        files = {name: facts["size"] for name, facts in manifest["files"].items()}
    except FileNotFoundError:
        return ""  # another format
    except (OSError, KeyError, TypeError, AttributeError):
        return ""  # another format, with a file of this name
    except ValueError:
        return f"{MANIFEST} is not JSON"
    for name, size in files.items():
        path = entry.path / name
        found = path.stat().st_size if path.exists() else None
        if found != size:
            return f"{name} has {found} bytes in place of {size}" if path.exists() else f"no {name}"
    return ""


def secrets(setup: Setup) -> Iterator[Diagnosis]:
    """Read the files of tokens, keys and certificates as the server does."""
    settings = setup.settings
    try:
        read_tokens(settings, setup.environment)
        read_archive_keys(settings.archive_keys)
        if settings.tls_certificate or settings.tls_key or settings.tls_client_ca:
            from servekit.settings.tls import server_context

            server_context(settings)
            if settings.tls_certificate:
                yield from _expiry(settings.tls_certificate, settings.tls_key)
        paths = open_files(settings)
    except (StartupError, OSError) as error:
        yield Diagnosis(severity="error", text=str(error), meaning="The server does not start.")
        return
    private = [*paths, *_open_key(settings.tls_key)]
    for path in private:
        yield Diagnosis(
            severity="error",
            text=f"{path} is open to every user of this machine",
            meaning="They can use the tokens, or read encrypted archives and connections.",
            fix=f"chmod 600 {path}",
        )


def _expiry(certificate: str, key: str) -> Iterator[Diagnosis]:
    import ssl

    from servekit.cli.doctor.certificate import days_left

    meaning = "Clients refuse to connect to a server whose certificate is not valid."
    fix = "replace the file, then: servekit reload"
    try:
        days = days_left(certificate, key)
    except ssl.SSLCertVerificationError as error:
        text = f"{certificate}: {error.verify_message}"
        yield Diagnosis(severity="error", text=text, meaning=meaning, fix=fix)
        return
    if days <= SOON_DAYS:
        text = f"{certificate}: expires in {days} days"
        yield Diagnosis(severity="warning", text=text, meaning=meaning, fix=fix)


def _open_key(path: str) -> list[str]:
    return [path] if path and Path(path).stat().st_mode & (stat.S_IROTH | stat.S_IWOTH) else []


def _cache(setup: Setup) -> Path:
    return Path(setup.settings.cache_dir) if setup.settings.cache_dir else default_cache_dir()


FILE_CHECKS: Final[Iterable[Check]] = (
    Check("directories", "permissions of the run directory, the cache and log files", directories),
    Check("cache", "entries of the cache that are not whole, and its size", cache),
    Check("secrets", "files of tokens, keys and certificates; their expiry", secrets),
)
