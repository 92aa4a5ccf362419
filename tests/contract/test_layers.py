# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: the three processes never import one another."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "servekit"
BASE = {"counting", "endpoints", "errors", "response", "service", "settings", "__init__"}
CROSSING = {"counters", "messages", "channel", "arena", "cancelling", "measures", "tether"}
PLUGINS = {"plugins", "hookspecs"}

MAY_IMPORT = {
    "__main__": {"cli"},
    "counting": set(),
    "errors": set(),
    "endpoints": set(),
    "weights": {"errors"},
    "options": {"errors"},
    "service": {"weights", "options", "measuring"},
    "types": {"errors"},
    "checkup": {"messages"},
    "assets": {"counting", "errors", "plugins"},
    "container": {"errors", "plugins", "settings"},
    "testing": BASE | PLUGINS | {"worker", "cli", "tether", "messages"},
    "settings": {"errors"},
    "__init__": {"endpoints", "errors", "response", "service", "types", "hookspecs"},
    "messages": set(),
    "response": set(),
    "channel": set(),
    "arena": {"channel", "messages"},
    "crashes": set(),
    "measures": set(),
    "counters": {"measures"},
    "measuring": {"arena", "measures", "messages"},
    "cancelling": {"arena", "messages"},
    "tether": set(),
    "cgroup": set(),
    "media_types": set(),
    "comparing": set(),
    "stream_formats": set(),
    "client": set(),
    "description": {"stream_formats", "errors", "messages", "media_types"},
    "tls": {"errors", "settings"},
    "hookspecs": {"errors"},
    "plugins": {"errors", "hookspecs", "__init__"},
    "supervisor": BASE | CROSSING | {"assets", "cgroup", "crashes", "tls"},
    "frontend": BASE | CROSSING | PLUGINS | {"stream_formats", "cgroup", "crashes", "tls", "web"},
    "web": BASE | {"counters", "messages", "description", "crashes"} | PLUGINS,
    "worker": BASE
    | CROSSING
    | PLUGINS
    | {"stream_formats", "checkup", "comparing", "measuring", "media_types", "types"}
    | {"description"},  # ``check`` makes inputs of the types that are described
    "cli": BASE
    | CROSSING
    | PLUGINS
    | {"supervisor", "container", "description", "assets", "checkup", "crashes"}
    | {"comparing", "media_types", "testing"},  # ``check`` asks a server of its own
}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [alias.name for alias in node.names] if node.module == "servekit" else [""]
            found |= {f"{node.module}.{name}".rstrip(".") for name in names}
    return {room_of(name) for name in found if name.split(".")[0] == "servekit"}


def rooms() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        found.setdefault(path.relative_to(PACKAGE).parts[0].removesuffix(".py"), []).append(path)
    return found


@pytest.mark.parametrize("room", sorted(rooms()))
def test_room_imports_only_what_it_may(room):
    known = set(rooms())
    imported = set().union(*(imports_of(path) for path in rooms()[room])) - {room}
    imported = {name if name in known else "__init__" for name in imported}

    assert imported - MAY_IMPORT[room] - {"__init__"} == set()


HEAVY = ("gevent", "flask", "numpy", "pluggy", "gunicorn", "prometheus_client", "servekit_archiver")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        pytest.param("servekit.supervisor", HEAVY, id="supervisor"),
        pytest.param(
            "servekit.supervisor.preparing.prepare",
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
        "cli/private.py": {"http.client"},  # asks the socket in the run directory of a server
        "testing/server.py": {"http.client"},  # asks the server that a test has started
    }


def test_only_the_prepare_child_looks_for_assets():
    users = {path.name for path in rooms()["supervisor"] if "assets" in imports_of(path)}

    assert users == {"prepare.py"}


def modules_of(path: Path) -> set[str]:
    """Return the full names of the modules that a file imports, at the top or later."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found
