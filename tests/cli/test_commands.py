# SPDX-License-Identifier: Apache-2.0
"""Commands of plugins: listed, run, and reported where they cannot be."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from servekit import hookimpl, plugins
from servekit.cli import main
from servekit.cli.parsing.exit_status import OK, STARTUP_FAILED, USAGE
from servekit.errors import StartupError
from servekit.extension import Command
from servekit.plugins import InstalledPlugin


def configure(parser):
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--version", default="")
    return run


def run(parsed):
    if parsed.count == 0:
        raise StartupError("nothing to train")
    print(f"trained {parsed.count}{parsed.version}")
    return None if parsed.count == 1 else parsed.count


def offers(*commands):
    def register_commands():
        if not commands:
            raise RuntimeError("no licence")
        return commands

    return SimpleNamespace(register_commands=hookimpl(register_commands))


def train(target="plugin_with_commands:configure", name="train"):
    return Command(name, "train a model", target)


@pytest.fixture
def install(monkeypatch):
    """Have the plugin manager find these plugins, by name."""
    module = ModuleType("plugin_with_commands")
    module.configure = configure
    monkeypatch.setitem(sys.modules, "plugin_with_commands", module)

    def discover(found):
        def register(manager):
            for name, plugin in found.items():
                if isinstance(plugin, str):
                    broken = InstalledPlugin(name, f"{name} 1", None, plugin)
                    manager.installed.append(broken)
                else:
                    manager.register(plugin, name)

        monkeypatch.setattr(plugins.PluginManager, "discover", register)

    return discover


def said(capsys, *arguments):
    try:
        status = main(list(arguments))
    except SystemExit as ended:
        status = ended.code
    return status, *capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "status", "out", "err"),
    [
        ([], OK, "trained 1\n", ""),
        (["--count", "4"], 4, "trained 4\n", ""),
        (["--count", "0"], STARTUP_FAILED, "", "servekit: nothing to train\n"),
        (["--cuont"], USAGE, "", "servekit train: unrecognized arguments: --cuont, did you mean "),
    ],
)
def test_a_command_of_a_plugin_runs(install, capsys, arguments, status, out, err):
    install({"trainer": offers(train())})

    found = said(capsys, "train", *arguments)

    assert found[:2] == (status, out)
    assert found[2].startswith(err)


def test_help_lists_it_with_its_plugin(install, capsys):
    install({"trainer": offers(train())})

    assert "    train     train a model (plugin trainer)\n" in said(capsys, "--help")[1]
    assert said(capsys, "train", "--help")[1].startswith("usage: servekit train [-h] [--count")


@pytest.mark.parametrize(
    ("found", "warning"),
    [
        ({"a": "ImportError: no torch"}, "plugin a cannot be imported: ImportError: no torch"),
        ({"a": offers()}, "a: register_commands: no licence"),
        ({"a": offers("train")}, "plugin a offers 'train' as a command"),
        ({"a": offers(train(name="Train me"))}, "plugin a: 'Train me' is not a name for a command"),
        ({"a": offers(train(name="start"))}, "plugin a offers the command start, which comes with"),
        ({"b": offers(train()), "a": offers(train())}, "command train: offered by a and b; unin"),
    ],
)
def test_help_names_what_cannot_be_used(install, capsys, found, warning):
    install(found)
    status, out, _ = said(capsys, "--help")

    assert status == OK
    assert f"warning: {warning}" in out
    assert "    start     serve models" in out


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ({"b": offers(train()), "a": offers(train())}, "command train: offered by a and b; unin"),
        (
            {"a": offers(train("plugin_with_commands:nothing"))},
            "command train of plugin a: AttributeError: module 'plugin_with_commands' has no attri",
        ),
        (
            {"a": offers(train("no_such:x"))},
            "command train of plugin a: ModuleNotFoundError: No mo",
        ),
    ],
)
def test_a_command_that_cannot_run_says_why_in_one_line(install, capsys, found, complaint):
    install(found)
    status, _, error = said(capsys, "train")

    assert (status, error.count("\n")) == (STARTUP_FAILED, 1)
    assert error.startswith(f"servekit: {complaint}")


def test_a_built_in_command_asks_no_plugin(monkeypatch, capsys):
    monkeypatch.setattr(plugins.PluginManager, "discover", lambda _: pytest.fail("asked"))

    assert said(capsys, "--version")[0] == OK
    assert said(capsys, "build", "--help")[0] == OK


def test_a_command_of_a_plugin_can_have_a_version_of_its_model(install, capsys):
    install({"a": offers(train())})

    assert said(capsys, "train", "--version", ".5") == (OK, "trained 1.5\n", "")
