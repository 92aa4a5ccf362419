# SPDX-License-Identifier: Apache-2.0
"""Services of the archive and of plugins, by name."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from servekit import Service, hookimpl
from servekit.errors import BootError, PluginError
from servekit.plugins import InstalledPlugin, create_plugin_manager
from servekit.worker.boot.service_lookup import find_service


class Offered(Service):
    """A plugin's service."""


def manager(*offers):
    """Return a manager of one plugin for each mapping of *offers*."""
    found = create_plugin_manager(discover=False)
    for number, services in enumerate(offers):
        module = types.ModuleType("plugin")
        module.register_services = hookimpl(specname="register_services")(lambda s=services: s)
        found.register(module, f"plugin-{number}")
    return found


def test_a_service_of_a_plugin_is_found_by_its_name():
    target = f"{__name__}:Offered"

    assert find_service("offered", Path(), manager({"offered": target})) is Offered


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(BootError, match="no plugin offers 'c'; known: a, b"):
        find_service("c", Path(), manager({"b": "x:y"}, {"a": "x:y"}))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sklearnn", "known: sklearn, did you mean sklearn?"),
        ("finding_it.Sum", "known: sklearn, did you mean finding_it:Sum?"),
        ("finding_it:Summ", "Summ is not there, did you mean Sum?"),
        ("finding_it:Service", "Service'> is not a subclass of servekit.Service"),
        ("finding_it:other", "finding_it:other: 3 is not a subclass of servekit.Service"),
        ("finding_it:Zebra", "Zebra is not there$"),
    ],
)
def test_a_name_that_is_nearly_right_is_told_the_right_one(tmp_path, monkeypatch, name, hint):
    text = "from servekit import Service\nclass Sum(Service): pass\nother = 3\n"
    (tmp_path / "finding_it.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "finding_it", raising=False)
    with pytest.raises(BootError, match=hint.replace("?", r"\?")):
        find_service(name, tmp_path, manager({"sklearn": "x:y"}))


def test_two_offers_of_one_name_are_an_error_that_names_both():
    with pytest.raises(PluginError, match="'a': offered by plugin-0 and plugin-1"):
        find_service("a", Path(), manager({"a": "x:y"}, {"a": "x:z"}))


def test_a_broken_plugin_is_named_where_a_service_is_missing():
    plugins = manager()
    plugins.installed = [
        InstalledPlugin("torch", "servekit-torch 1.0", None, "ImportError: no torch")
    ]
    with pytest.raises(BootError, match=r"'torch' cannot be imported \(ImportError: no torch\)"):
        find_service("torch", Path(), plugins)


def finder(**how):
    """Return a plugin whose ``find_service`` finds ``Offered`` for references with ``mine``."""

    def find_service(reference):
        return how.get("found", Offered) if "mine" in reference else None

    return types.SimpleNamespace(find_service=hookimpl(find_service))


def test_a_plugin_finds_a_service_before_the_archive_is_asked():
    plugins = create_plugin_manager(finder(), discover=False)

    assert find_service("mine:Anything", Path(), plugins) is Offered
    with pytest.raises(BootError, match="no module 'nowhere' in the model"):
        find_service("nowhere:Anything", Path(), plugins)


def test_a_wrapper_may_replace_the_service_that_was_found():
    def traced(reference):
        return type("Traced", ((yield),), {})

    wrapper = types.SimpleNamespace(find_service=hookimpl(wrapper=True)(traced))
    plugins = create_plugin_manager(finder(), wrapper, discover=False)

    assert find_service("mine:A", Path(), plugins).__mro__[1] is Offered


def test_what_a_plugin_finds_must_be_a_service():
    plugins = create_plugin_manager(finder(found=dict), discover=False)
    with pytest.raises(BootError, match=r"mine:A: <class 'dict'> is not a subclass of servekit.Se"):
        find_service("mine:A", Path(), plugins)


def test_a_service_saved_twice_in_a_second_runs_as_it_was_saved_last(tmp_path):
    found = []
    for answer in (1, 2):
        (tmp_path / "quick.py").write_text(
            f"import servekit\nclass A(servekit.Service): x = {answer}\n"
        )
        os.utime(tmp_path / "quick.py", (1e9, 1e9))
        program = (
            "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
            "from servekit.plugins import create_plugin_manager as plugins\n"
            "from servekit.worker.boot.service_lookup import find_service as find\n"
            "print(find('quick:A', Path(sys.argv[1]), plugins(discover=False)).x)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        found.append(done.stdout)

    assert found == ["1\n", "2\n"]
