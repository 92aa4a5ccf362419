# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: the table of rooms in ``CONTRIBUTING.md``, held."""

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "servekit"
#: where the rooms of the tables are: those of the archiver lie a folder deeper
HOMES = {"servekit": ROOT, "servekit_archiver": ROOT / "archiver"}
ROW = re.compile(r"^\| `((servekit\w*)/[^`]*)` \|", re.MULTILINE)
PROCESSES = (
    "servekit/frontend/",
    "servekit/observer/",
    "servekit/supervisor/",
    "servekit/worker/",
)


@cache
def rooms(package: str = "servekit") -> list[str]:
    """Return the rooms of a table in ``CONTRIBUTING.md``, bottom-up."""
    rows = ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    return [room for room, home in rows if home == package]


@cache
def modules(package: str = "servekit") -> dict[str, Path]:
    found = {}
    for path in sorted((HOMES[package] / package).rglob("*.py")):
        parts = path.relative_to(HOMES[package]).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports_of(path: Path, known: Mapping[str, Path]) -> set[str]:
    """Return the modules of servekit that a file imports: at the top, later, or for types only."""
    found = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found & known.keys()


def room_of(path: Path, package: str = "servekit") -> str:
    place = path.relative_to(HOMES[package]).as_posix()
    fits = [room for room in rooms(package) if place.startswith(room)]
    assert fits, f"{place} is in no room of CONTRIBUTING.md"
    return max(fits, key=len)


@pytest.mark.parametrize("package", HOMES)
def test_each_room_of_the_table_is_there(package):
    missing = [room for room in rooms(package) if not (HOMES[package] / room).exists()]

    assert rooms(package)
    assert missing == []


def downward_imports(package: str) -> list[tuple[str, str]]:
    """Return the imports of rooms that are below in the table."""
    known, order, down = modules(package), rooms(package), set()
    for path in known.values():
        own = room_of(path, package)
        for name in imports_of(path, known):
            if order.index(room_of(known[name], package)) > order.index(own):
                down.add((path.relative_to(HOMES[package]).as_posix(), name))
    return sorted(down)


def test_rooms_import_only_rooms_above_them():
    assert downward_imports("servekit") == []


def test_rooms_of_the_archiver_import_only_rooms_above_them():
    assert downward_imports("servekit_archiver") == []


def test_processes_never_import_one_another():
    known, found = modules(), set()
    for path in known.values():
        own = [each for each in PROCESSES if path.relative_to(ROOT).as_posix().startswith(each)]
        for name in imports_of(path, known) if own else ():
            other = f"{name.replace('.', '/')}/"
            if any(other.startswith(each) for each in PROCESSES if each not in own):
                found.add((path.relative_to(ROOT).as_posix(), name))

    assert found == set()


def in_circles(package: str) -> list[str]:
    """Return the modules that are part of a circle of imports, or lead into one."""
    known = modules(package)
    arrows = {name: imports_of(path, known) - {name} for name, path in known.items()}
    while ends := [name for name, others in arrows.items() if not others]:
        for name in ends:
            del arrows[name]
        for others in arrows.values():
            others.difference_update(ends)
    return sorted(arrows)


def test_no_module_is_part_of_a_circle():
    assert in_circles("servekit") == []


def test_no_module_of_the_archiver_is_part_of_a_circle():
    assert in_circles("servekit_archiver") == []


HEAVY = ("gevent", "flask", "numpy", "pluggy", "gunicorn", "prometheus_client", "servekit_archiver")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        pytest.param("servekit.supervisor", HEAVY, id="supervisor"),
        pytest.param(
            "servekit.supervisor.preparing.__main__",
            ("subprocess", "venv", "urllib.request", "pluggy"),
            id="prepare child, which every model waits for",
        ),
        pytest.param("servekit.cli", (*HEAVY, "msgspec"), id="command line"),
        pytest.param("servekit", (*HEAVY, "msgspec"), id="what an author imports"),
        pytest.param("servekit.description.snippets", HEAVY, id="descriptions"),
        pytest.param("servekit.web", ("gevent", "numpy"), id="web"),
    ],
)
def test_import_brings_nothing_heavy(module, absent):
    code = f"import sys, {module}; print(*[m for m in {absent!r} if m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert loaded.stdout.strip() == ""


#: what can open a connection to somewhere else
CLIENTS = {"urllib.request", "http.client", "ftplib", "requests", "httpx", "aiohttp", "urllib3"}


def test_nothing_that_serves_can_fetch():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        imported = modules_of(path)
        if imported & CLIENTS:
            found[path.relative_to(PACKAGE).as_posix()] = imported & CLIENTS

    assert found == {
        "assets/http.py": {"urllib.request"},  # fetches what a manifest names, by hand
        "observer/metrics.py": {"http.client"},  # reads the metrics at the socket of its server
        "cli/server/connection.py": {"http.client"},  # asks the server that an operator names
        "system/unix_http.py": {"http.client"},  # connects to paths only
        "testing/server.py": {"http.client"},  # asks the server that a test has started
    }


def test_only_the_prepare_child_looks_for_assets():
    supervisor = (PACKAGE / "supervisor").rglob("*.py")
    users = {
        path.name
        for path in supervisor
        if any(name.startswith("servekit.assets") for name in modules_of(path))
    }

    assert users == {"providing.py"}


def modules_of(path: Path) -> set[str]:
    """Return the full names of the modules that a file imports, at the top or later."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found
