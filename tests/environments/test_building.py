# SPDX-License-Identifier: Apache-2.0
"""The environment of a model: what is in it, what is on its path, and what is refused."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import pytest
import servekit_archiver
from servekit_archiver import ArchiveError, load_directory, lock_directory
from servekit_archiver.cache.holding import hold

import servekit
from archiver.tests.wheels import write_wheel
from servekit.environments import store
from servekit.environments.building import environment_for
from servekit.environments.server_side import WORKER_NEEDS
from servekit.environments.wanted import WantedPackages
from servekit.errors import StartupError

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TOML = 'name="m"\nservice="service:M"\nrequirements="requirements.txt"\n'
NOWHERE = "http://127.0.0.1:9/simple"


@pytest.fixture
def packages(tmp_path):
    write_wheel(tmp_path / "packages", "sktiny", "1.0")
    return tmp_path / "packages"


@pytest.fixture
def ask(tmp_path, packages):
    """Return the environment of a model with these requirements, and what was told meanwhile."""

    def build(*requirements):
        file = tmp_path / "requirements.txt"
        lines = ("--no-index", f"--find-links {packages}", *requirements)
        file.write_text("".join(f"{line}\n" for line in lines))
        told = []
        return environment_for(WantedPackages(file), tmp_path / "cache", told.append), told

    return build


def run(environment, code):
    command = [store.python_of(environment), "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip()


def test_environment_is_built_once_and_sees_the_server_too(ask):
    environment, told = ask("sktiny")
    again, nothing = ask("sktiny")

    assert told[0] == "building the environment"
    assert any("sktiny-1.0" in step for step in told)
    assert (again, nothing) == (environment, [])
    assert (
        run(environment, "import sktiny, servekit, msgspec, flask; print(sktiny.VERSION)") == "1.0"
    )
    assert "Successfully installed sktiny" in environment.with_suffix(".log").read_text()


def test_packages_of_the_model_win_over_those_of_the_server(ask, packages):
    write_wheel(packages, "werkzeug", "99.0")

    environment, _ = ask("werkzeug==99.0")

    assert run(environment, "import werkzeug, servekit; print(werkzeug.VERSION)") == "99.0"


def test_servekit_is_that_of_the_server_whatever_the_model_installs(ask, packages):
    write_wheel(packages, "servekit", "0.0.1")

    environment, _ = ask("servekit==0.0.1")

    facts = "servekit.__version__, servekit_archiver.__version__"
    told = f"{servekit.__version__} {servekit_archiver.__version__}"
    assert run(environment, f"import servekit, servekit_archiver; print({facts})") == told


def test_a_package_with_which_no_worker_works_is_refused(ask, packages):
    write_wheel(packages, "msgspec", "0.1")

    for _ in "ab":  # what was built is refused, too
        with pytest.raises(StartupError, match=r"msgspec 0\.1, but workers of this server need"):
            ask("msgspec==0.1")


def test_failing_pip_is_quoted_and_tried_again(ask, tmp_path, capsys):
    for _ in "ab":
        with pytest.raises(StartupError, match=r"requirements.txt: pip: ERROR: .*no-such-package"):
            ask("no-such-package")

    assert "pip: ERROR" in capsys.readouterr().err
    (log,) = (tmp_path / "cache" / "environments").glob("*.log")
    assert "no-such-package" in log.read_text()


def test_requirements_that_contradict_each_other_are_named(ask):
    with pytest.raises(StartupError, match=r"Cannot install sktiny==1\.0 and sktiny==2\.0"):
        ask("sktiny==1.0", "sktiny==2.0")


def test_an_incomplete_environment_is_built_again(tmp_path, packages):
    file, told = tmp_path / "requirements.txt", []
    file.write_text(f"--no-index\n--find-links {packages}\nsktiny\n")
    wanted = WantedPackages(file)
    left = tmp_path / "c" / "environments" / wanted.key()
    (left / "lib").mkdir(parents=True)
    (left / "lib" / "half").touch()

    environment = environment_for(wanted, tmp_path / "c", told.append)

    assert (environment, told[0]) == (left, "building the environment")
    assert not (left / "lib" / "half").exists()


def test_one_of_two_builds_it(tmp_path, packages):
    file, told = tmp_path / "requirements.txt", []
    file.write_text(f"--no-index\n--find-links {packages}\nsktiny\n")
    wanted = WantedPackages(file)
    with ThreadPoolExecutor() as pool:
        found = {*pool.map(lambda _: environment_for(wanted, tmp_path / "c", told.append), "abc")}

    assert len(found) == 1
    assert told.count("building the environment") == 1


# ---------------------------------------------------------------- locks


@pytest.fixture
def locked(tmp_path, packages, monkeypatch):
    """A model directory whose lock has ``sktiny`` and ``sktwo``, with their wheels."""
    pytest.importorskip("uv", reason="the extra lock is not installed")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    write_wheel(packages, "sktiny", "1.0", "sktwo")
    write_wheel(packages, "sktwo", "2.0")
    model = write_model(tmp_path / "m", f"--no-index\n--find-links {packages}\nsktiny\n")
    lock_directory(model, wheels=True)
    return model


def write_model(directory, requirements):
    directory.mkdir()
    (directory / "model.toml").write_text(TOML)
    (directory / "service.py").write_text("class M: ...\n")
    (directory / "requirements.txt").write_text(requirements)
    return directory


def build_locked(directory, tmp_path):
    wanted = WantedPackages.of(load_directory(directory), directory)
    return environment_for(wanted, tmp_path / "cache", lambda step: None)


def test_a_locked_package_is_installed_even_if_the_server_has_it(packages, tmp_path, monkeypatch):
    pytest.importorskip("uv", reason="the extra lock is not installed")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    write_wheel(packages, "werkzeug", version("werkzeug"))
    model = write_model(tmp_path / "m", f"--no-index\n--find-links {packages}\nwerkzeug\n")
    lock_directory(model)

    environment = build_locked(model, tmp_path)

    assert list(environment.glob("lib/python*/site-packages/werkzeug.py"))


def test_packed_wheels_need_no_index(locked, packages, tmp_path, monkeypatch):
    for wheel in packages.iterdir():
        wheel.unlink()
    for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(variable, NOWHERE)

    environment = build_locked(locked, tmp_path)

    assert run(environment, "import sktiny, sktwo; print(sktwo.VERSION)") == "2.0"


def test_another_file_than_the_locked_one_is_refused(locked, tmp_path):
    write_wheel(locked / "requirements.wheels", "sktwo", "2.0", "sktiny")

    with pytest.raises(StartupError, match=r"requirements\.lock: pip: .*DO NOT MATCH THE HASHES"):
        build_locked(locked, tmp_path)


def test_a_wheel_that_is_not_packed_is_not_looked_for(locked, tmp_path):
    (locked / "requirements.wheels" / "sktwo-2.0-py3-none-any.whl").unlink()

    with pytest.raises(StartupError, match=r"sktwo.* \(only the packed wheels are used\); see "):
        build_locked(locked, tmp_path)


def test_the_same_lock_is_one_environment_with_or_without_wheels(locked, tmp_path):
    first = build_locked(locked, tmp_path)
    for wheel in (locked / "requirements.wheels").iterdir():
        wheel.unlink()

    assert build_locked(locked, tmp_path) == first


def test_a_python_that_is_not_installed_is_named(tmp_path):
    pytest.importorskip("uv", reason="the extra lock is not installed")
    (tmp_path / "a.lock").write_text("")
    wanted = WantedPackages(tmp_path / "a.lock", "3.99", is_locked=True)

    with pytest.raises(ArchiveError, match=r"Python 3\.99 is not installed; run: uv python"):
        environment_for(wanted, tmp_path / "cache", lambda step: None)


# ---------------------------------------------------------------- removal


def test_an_environment_that_is_used_or_built_is_not_removed(ask):
    environment, _ = ask("sktiny")
    held = hold(environment)

    assert not store.remove(environment)
    os.close(held)
    with store.building(environment):
        assert not store.remove(environment)
    assert store.remove(environment)
    assert list(environment.parent.iterdir()) == []


def test_environments_that_were_not_used_for_long_go_when_another_is_built(ask, tmp_path):
    used, old, recent = (tmp_path / "cache" / "environments" / (each * 32) for each in "abc")
    for environment in (used, old, recent):
        environment.mkdir(parents=True)
        (environment / store.FACTS_FILE).touch()
    for environment in (used, old):
        os.utime(environment / store.FACTS_FILE, (0, 0))
    held = hold(used)

    built, _ = ask("sktiny")
    os.close(held)

    assert store.environments_in(built.parent) == sorted([used, recent, built])


# ---------------------------------------------------------------- the worker

IMPORTS = """
import importlib, pkgutil, sys
import servekit.worker
for module in pkgutil.walk_packages(servekit.worker.__path__, "servekit.worker."):
    # the latter is imported for images of Pillow, which the model then has
    if not module.name.endswith(("__main__", "image_values")):
        importlib.import_module(module.name)
top = {name.partition(".")[0] for name, module in sys.modules.items()
       if "site-packages" in (getattr(module, "__file__", None) or "")}
print(*sorted(top))
"""
#: modules that those bring along
BROUGHT = {"_cython_3_3_0", "_distutils_hack", "cython_runtime", "typing_extensions"}


def test_workers_import_what_environments_of_another_python_get():
    command = [sys.executable, "-P", "-c", IMPORTS]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert {*found} - BROUGHT <= {*WORKER_NEEDS}
