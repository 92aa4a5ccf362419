# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest
from servekit_archiver import ArchiveError, hookimpl, load_directory
from servekit_archiver.cli import main
from servekit_archiver.cli.exit_status import REFUSED
from servekit_archiver.directory.recognise import recognise


class Knows:
    def __init__(self, offer):
        self.offer = offer

    @hookimpl
    def recognise_model(self, directory: Path):
        return self.offer


class Fails:
    @hookimpl
    def recognise_model(self):
        raise RuntimeError("oops")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a plugin: a module of this source under an entry point of this name."""

    def install_plugin(name, source):
        module = f"plugin_{name}_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[servekit]\n{name} = {module}\n")
        monkeypatch.syspath_prepend(tmp_path)

    return install_plugin


def test_one_plugin_that_knows_a_directory_is_enough(tmp_path):
    offer = recognise(tmp_path, Knows(None), Knows({"service": "onnx"}), discover=False)

    assert offer == {"service": "onnx"}


def test_nobody_knows_a_directory(tmp_path):
    assert recognise(tmp_path, Knows(None), discover=False) is None


def test_two_plugins_that_know_a_directory_are_refused_by_name(tmp_path):
    with pytest.raises(ArchiveError, match=r"recognised by .* and .*; name a service"):
        recognise(tmp_path, Knows({"service": "a"}), Knows({"service": "b"}), discover=False)


def test_a_format_that_contains_others_comes_before_them(tmp_path):
    outer = Knows(None)
    outer.recognise_model = hookimpl(tryfirst=True)(lambda directory: {"service": "mlflow"})

    offer = recognise(tmp_path, outer, Knows({"service": "onnx"}), discover=False)

    assert offer == {"service": "mlflow"}


def test_a_plugin_that_raises_is_named(tmp_path):
    with pytest.raises(ArchiveError, match=r"plugin .*: RuntimeError: oops"):
        recognise(tmp_path, Fails(), discover=False)


class Renames:
    @hookimpl(wrapper=True)
    def recognise_model(self):
        return [{**offer, "name": "renamed"} for offer in (yield)]


def test_a_wrapper_may_change_what_is_offered(tmp_path):
    offer = recognise(tmp_path, Knows(None), Knows({"service": "a"}), Renames(), discover=False)

    assert offer == {"service": "a", "name": "renamed"}


def test_plugins_that_are_asked_later_are_not_hidden(tmp_path):
    late = Knows({"service": "late"})
    late.recognise_model = hookimpl(trylast=True)(lambda directory: {"service": "late"})

    with pytest.raises(ArchiveError, match=r"recognised by .* and "):
        recognise(tmp_path, Knows({"service": "a"}), late, discover=False)


@pytest.mark.parametrize("offer", [3, {"service": 3}, {"nonsense": 1, "service": "onnx"}])
def test_a_plugin_that_offers_nonsense_is_refused(tmp_path, offer):
    def ask(directory):
        return recognise(directory, Knows(offer), discover=False)

    with pytest.raises(ArchiveError):
        load_directory(tmp_path, ask)


def test_an_installed_plugin_is_asked(install, tmp_path):
    install("known", "import servekit_archiver as s\n@s.hookimpl\ndef recognise_model(directory):\n"
            "    return {'service': directory.name}\n")  # fmt: skip
    model = tmp_path / "exotic"
    model.mkdir()

    assert load_directory(model).service == "exotic"


def test_a_plugin_that_does_not_import_is_named_when_nothing_else_knows_better(install, tmp_path):
    install("broken", "import a_module_that_is_not_there")
    model = tmp_path / "exotic"
    model.mkdir()

    with pytest.raises(ArchiveError, match=r"these plugins failed: broken \(ModuleNotFoundError"):
        load_directory(model)


def test_a_broken_plugin_harms_nobody_who_names_a_service(install, tree, tmp_path):
    install("broken", "raise SystemExit(3)")

    path = tree(tmp_path / "m", {"model.toml": 'service = "onnx"'})

    assert load_directory(path).service == "onnx"
    assert "plugin_broken" not in " ".join(sys.modules)


COMMANDS = """
import servekit_archiver as s
from servekit_archiver.commands import Command

@s.hookimpl
def register_commands():
    here = f"{__name__}:weigh"
    return [Command("weigh", "weigh an archive", here, is_of_archives=True),
            Command("serve-tea", "make tea", here)]

def weigh(parser):
    parser.add_argument("archive")
    return run

def run(args):
    if args.archive == "nothing":
        raise s.ArchiveError("nothing: has no weight")
    print(f"{args.archive}: 3 kg")
    return 0
"""


def test_a_command_of_a_plugin_runs(install, capsys):
    install("scales", COMMANDS)

    assert main(["weigh", "a.mar"]) == 0
    assert main(["weigh", "nothing"]) == REFUSED
    shown = capsys.readouterr()
    assert shown.out == "a.mar: 3 kg\n"
    assert shown.err == "servekit-archive: nothing: has no weight\n"


def test_the_help_lists_the_commands_of_plugins_that_are_for_archives(install, capsys):
    install("scales", COMMANDS)
    with pytest.raises(SystemExit):
        main(["--help"])

    out = capsys.readouterr().out
    assert "weigh an archive (plugin scales)" in out
    assert "tea" not in out


def test_a_command_of_two_plugins_runs_neither(install, capsys):
    install("scales", COMMANDS)
    install("balance", COMMANDS)

    assert main(["weigh", "a.mar"]) == REFUSED
    assert "offered by balance and scales; uninstall one" in capsys.readouterr().err


def test_a_command_that_cannot_be_imported_is_named(install, capsys):
    install("scales", COMMANDS.replace("{__name__}:weigh", "no_such_module:weigh"))

    assert main(["weigh", "a.mar"]) == REFUSED
    assert "command weigh of plugin scales: ModuleNotFoundError" in capsys.readouterr().err


def test_the_commands_of_the_archiver_import_no_plugin(install, archive, capsys):
    install("broken", "raise SystemExit(3)")

    assert main(["inspect", str(archive)]) == 0


VERIFY = """
import servekit_archiver as s

@s.hookimpl
def extend_verify(parser):
    parser.add_argument("--weight", type=int)
    return check

def check(archive, args):
    if args.weight is None:
        return []
    if args.weight != len(archive.entries):
        raise s.ArchiveError(f"{archive.path}: weighs {len(archive.entries)}")
    return ["has the right weight"]
"""


def test_a_plugin_adds_to_verify(install, archive, capsys):
    install("scales", VERIFY)

    assert main(["verify", str(archive)]) == 0
    assert main(["verify", str(archive), "--weight", "5"]) == 0
    assert capsys.readouterr().out.count("has the right weight") == 1
    assert main(["verify", str(archive), "--weight", "4"]) == REFUSED
    assert capsys.readouterr().err == f"servekit-archive: {archive}: weighs 5\n"


def test_a_plugin_that_fails_ends_verify(install, archive, capsys):
    install("scales", VERIFY.replace("return check", "raise RuntimeError('oops')"))

    assert main(["verify", str(archive)]) == REFUSED
    assert "verify: a plugin failed: RuntimeError: oops" in capsys.readouterr().err
