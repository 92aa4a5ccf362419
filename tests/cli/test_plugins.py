# SPDX-License-Identifier: Apache-2.0
"""``servekit plugins`` names what is offered and what is broken."""

import json
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from servekit.cli import main
from servekit.cli.commands import plugins as command
from servekit.extension import Command
from servekit.hookspecs import ReadOnly
from servekit.plugins import InstalledPlugin

ONNX = InstalledPlugin(
    "onnx",
    "servekit-onnx 0.1.0",
    SimpleNamespace(register_services=lambda: {"onnx": "servekit_onnx.service:OnnxService"}),
    hooks=("register_services",),
)
NOWHERE = {
    "no-module": "servekit_nowhere.service:S",
    "no-name": "servekit.service.base:Nothing",
    "no-class": "servekit.cli:main",
    "no-colon": "servekit.service.base.Service",
    "nothing": None,
}
BROKEN = InstalledPlugin("torch", "servekit-torch 2.0", None, "ImportError: no libcuda")
RAISING = InstalledPlugin(
    "odd", "odd 1", SimpleNamespace(register_codecs=lambda: 1 / 0), hooks=("register_codecs",)
)


@pytest.fixture
def installed(monkeypatch):
    return lambda *plugins: monkeypatch.setattr(command, "installed_plugins", lambda: list(plugins))


@pytest.mark.parametrize(
    ("plugins", "lines"),
    [
        pytest.param([], ["no plugins are installed; try: pip install"], id="none"),
        pytest.param(
            [ONNX],
            [
                "onnx  (servekit-onnx 0.1.0)",
                "  service   onnx  ->  servekit_onnx.service:OnnxService",
            ],
            id="what it offers",
        ),
        pytest.param([BROKEN], ["  broken    ImportError: no libcuda"], id="fails to import"),
        pytest.param(
            [RAISING], ["  broken    register_codecs: ZeroDivisionError"], id="a hook raises"
        ),
    ],
)
def test_text(installed, capsys, plugins, lines):
    installed(*plugins)
    main(["plugins"])
    text = capsys.readouterr().out

    assert all(line in text for line in lines)


@pytest.mark.parametrize(
    ("plugins", "flags", "status"),
    [
        pytest.param([ONNX, BROKEN], [], 0, id="broken is told, not fatal"),
        pytest.param([ONNX, BROKEN], ["--strict"], 1, id="strict: broken is fatal"),
        pytest.param([ONNX], ["--strict"], 0, id="strict: all well"),
    ],
)
def test_status(installed, plugins, flags, status):
    installed(*plugins)

    assert main(["plugins", *flags]) == status


def offering(hook, name="odd", **offers):
    module = SimpleNamespace(**{hook: lambda: offers})
    return InstalledPlugin(name, "odd 1", module, hooks=(hook,))


@pytest.mark.parametrize("key", NOWHERE)
def test_strict_imports_what_is_offered(installed, capsys, key):
    installed(ONNX, offering("register_services", **{key: NOWHERE[key]}))
    status = main(["plugins", "--strict", "--json"])
    onnx, odd = json.loads(capsys.readouterr().out)

    assert (status, onnx["error"]) == (1, "")
    assert odd["error"].startswith(f"service {key}: ")


@pytest.mark.parametrize(
    ("hook", "offers", "says"),
    [
        ("register_codecs", {"a/b": "json:loads"}, "codec a/b: json:loads has neither decode nor"),
        (
            "register_codecs",
            {"image/png": ReadOnly("servekit_image.codecs:png")},
            "codec image/png: servekit_image.codecs:png is offered as ReadOnly, and has encode",
        ),
        (
            "register_fetchers",
            {"s3": "servekit:__version__"},
            "fetcher s3: servekit:__version__ can",
        ),
    ],
)
def test_strict_looks_at_what_is_imported(installed, capsys, hook, offers, says):
    installed(offering(hook, **offers))

    assert main(["plugins", "--strict"]) == 1
    assert f"  broken    {says}" in capsys.readouterr().out


def test_strict_names_two_plugins_that_offer_the_same(installed, capsys):
    installed(ONNX, offering("register_services", onnx="servekit_onnx.service:OnnxService"))

    assert main(["plugins", "--strict"]) == 1
    out = capsys.readouterr().out
    assert "service onnx: odd offers it too" in out
    assert "service onnx: onnx offers it too" in out


def test_what_is_built_in_may_be_replaced_but_not_a_command(installed, capsys):
    start = [Command("start", "serve", "servekit.cli.commands.start:start")]
    builtin = InstalledPlugin(
        "servekit.builtin.x",
        "servekit 0.1.0",
        SimpleNamespace(
            register_codecs=lambda: {"text/plain": "servekit.worker.codecs.plain:text"},
            register_commands=lambda: start,
        ),
        hooks=("register_codecs", "register_commands"),
        is_builtin=True,
    )
    codec = offering("register_codecs", **{"text/plain": "servekit.worker.codecs.plain:text"})
    module = SimpleNamespace(register_commands=lambda: start)
    installed(builtin, codec, InstalledPlugin("bold", "b 1", module, hooks=("register_commands",)))

    assert main(["plugins", "--strict", "--json"]) == 1
    found = {plugin["name"]: plugin for plugin in json.loads(capsys.readouterr().out)}
    assert {name: plugin["error"] for name, plugin in found.items()} == {
        "servekit.builtin.x": "",
        "odd": "",
        "bold": "command start: servekit.builtin.x offers it too",
    }
    assert [plugin["is_builtin"] for plugin in found.values()] == [True, False, False]


def test_versions_are_known_after_the_backport_of_importlib_metadata_was_imported():
    """It makes the standard library's finder return distributions of a class of its own."""
    code = """
import importlib.metadata, sys

class Foreign:
    metadata = {"Name": "servekit-foreign", "Version": "2"}

point = importlib.metadata.EntryPoint("foreign", "json", "servekit")
vars(point)["dist"] = Foreign()
importlib.metadata.entry_points = lambda: importlib.metadata.EntryPoints([point])

from servekit.cli import main
sys.exit(main(["plugins"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "servekit-foreign 2" in done.stdout


@pytest.mark.slow
def test_the_plugins_of_this_repository_are_whole(capsys):
    has_torch = find_spec("torch") is not None
    status = main(["plugins", "--strict", "--json"])
    broken = {each["name"]: each["error"] for each in json.loads(capsys.readouterr().out)}
    named = {name for name, error in broken.items() if error}

    # PyTorch is installed for the slow tests
    assert named == (set() if has_torch else {"huggingface", "torch"})
    assert status == (1 if named else 0)
    assert all("No module named 'torch'" in broken[name] for name in named)


@pytest.mark.slow
def test_the_plugins_of_this_repository_are_whole_with_everything_they_need():
    assert find_spec("torch") is not None
    assert main(["plugins", "--strict"]) == 0
