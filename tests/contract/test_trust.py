# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - tables of broken bytes read better unbroken
"""What SECURITY.md says of the code itself: what it never imports, calls or depends on."""

import ast
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("servekit/**/*.py"), *ROOT.glob("archiver/servekit_archiver/**/*.py")])

#: they make code or objects of bytes
NEVER_IMPORTED = {
    *("pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "copyreg"),
    *("multiprocessing", "code", "codeop", "xmlrpc", "xml", "zipfile", "tarfile", "zipimport"),
}
#: they fetch what somebody names
DIALLERS = {
    *(
        "urllib.request",
        "requests",
        "httpx",
        "http.client",
        "ftplib",
        "smtplib",
        "aiohttp",
        "urllib3",
    ),
}
#: what an operator asks for by name, and what an author tests with; ``private`` connects to a
#: socket of the operator's own run directory
MAY_DIAL = {
    "servekit/assets/http.py",
    "servekit/cli/server/connection.py",
    "servekit/observer/metrics.py",
    "servekit/system/unix_http.py",
    "servekit/testing/server.py",
}
#: archives of other formats, which plugins have unpacked: their writers keep fewer rules than ours;
#: and pickles between the stages of models whose manifest asks for them
MAY_IMPORT = {
    "archiver/servekit_archiver/archive/foreign.py": {"tarfile", "zipfile"},
    "servekit/worker/codecs/pickles.py": {"pickle"},
}
NEVER_CALLED = {"eval", "exec", "compile", "__import__", "breakpoint"}


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for full in names for name in (full, full.partition(".")[0])}


def called(tree: ast.AST) -> set[str]:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {call.id for call in calls if isinstance(call, ast.Name)}


def lax_arguments(tree: ast.AST) -> list[str]:
    """Return the keyword arguments that would let a pickle or a shell in."""
    keywords = [node for node in ast.walk(tree) if isinstance(node, ast.keyword)]
    return [str(keyword.arg) for keyword in keywords if is_lax(keyword)]


def is_lax(node: ast.keyword) -> bool:
    is_false = isinstance(node.value, ast.Constant) and node.value.value is False
    return node.arg in ("allow_pickle", "shell") and not is_false


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_makes_no_objects_of_bytes_and_fetches_nothing(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = str(path.relative_to(ROOT))
    may_dial = name in MAY_DIAL

    assert imported(tree) & NEVER_IMPORTED == MAY_IMPORT.get(name, set())
    assert may_dial or imported(tree) & DIALLERS == set()
    assert called(tree) & NEVER_CALLED == set()
    assert lax_arguments(tree) == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from pickle import loads", "import urllib.request", "from urllib import request",
        "def f():\n    import marshal", "import numpy\nnumpy.load('x', allow_pickle=True)", "eval('1')",
        "import subprocess\nsubprocess.run('ls', shell=True)", "import http.client as c",
    ],
)  # fmt: skip
def test_the_check_sees_what_it_is_for(code):
    tree = ast.parse(code)

    assert (
        imported(tree) & (NEVER_IMPORTED | DIALLERS)
        or called(tree) & NEVER_CALLED
        or lax_arguments(tree)
    )


FLOORS = {
    "gunicorn": (
        "27.0.1",
        "a failed body closes the connection; earlier ones can be smuggled through",
    ),
    "gevent": ("25.4.1", "CVE-2023-41419 and what followed it"),
    "werkzeug": ("3.1.6", "CVE-2023-25577, CVE-2023-46136, CVE-2024-49767"),
    "flask": ("3.1.3", "CVE-2026-27205"),
    "msgpack": ("1.2.3", "CVE-2026-114613"),
}


@pytest.mark.parametrize(("name", "floor"), [(name, floor) for name, (floor, _) in FLOORS.items()])
def test_no_dependency_may_be_one_with_a_known_hole(name, floor):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted = {each.name: each.specifier for each in map(Requirement, declared)}[name]
    floors = [Version(each.version) for each in wanted if each.operator in (">=", "==", "~=")]

    assert floors
    assert max(floors) >= Version(floor)
