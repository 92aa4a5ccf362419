# SPDX-License-Identifier: Apache-2.0
"""Plugins open URLs and refuse archives, before anything of an archive runs."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from servekit_archiver import build_archive

from servekit.errors import StartupError
from servekit.extension import Kept, Policy, Refused
from servekit.hookspecs import hookimpl
from servekit.plugins import create_plugin_manager
from servekit.supervisor.preparing import archive_plugins
from servekit.supervisor.preparing.archive_plugins import may_have_judges
from servekit.supervisor.preparing.messages import PrepareRequest
from servekit.supervisor.preparing.prepare import answer


class Store:
    """Opens ``box:`` URLs: an archive that is copied to the scratch, or a directory."""

    def __init__(self, content):
        self.content = content
        self.asked = []

    @hookimpl
    def open_archive(self, url, scratch, progress):
        self.asked.append(url)
        if not url.startswith("box://"):
            return None
        progress(3, 4)
        if self.content.is_dir():
            return shutil.copytree(self.content, scratch / "model")
        return shutil.copy(self.content, scratch / "downloaded")


class Guard:
    """Refuses what *judge* says."""

    def __init__(self, judge):
        self.judge = judge
        self.seen = []

    @hookimpl
    def accept_archive(self, archive):
        self.seen.append(archive)
        return self.judge(archive)


@pytest.fixture
def prepare(monkeypatch, tmp_path):
    """Prepare with these plugins."""

    def run(path, *plugins, **more):
        manager = create_plugin_manager(*plugins, discover=False)
        monkeypatch.setattr(
            "servekit.plugins.create_plugin_manager", lambda *extra, required: manager
        )
        monkeypatch.setattr(archive_plugins, "judges", lambda required: manager)
        monkeypatch.setattr(archive_plugins, "may_have_judges", lambda _path: True)
        request = PrepareRequest(
            str(path), cache_dir=str(tmp_path / "cache"), scratch=str(tmp_path / "run/a/1"), **more
        )
        return answer(request, steps.append)

    steps = []
    run.steps = steps
    return run


@pytest.fixture
def archive(model, tmp_path):
    build_archive(model(), tmp_path / "digits.mar")
    return tmp_path / "digits.mar"


# ---------------------------------------------------------------- open_archive


def test_archive_of_a_url_is_unpacked_and_the_download_is_removed(prepare, archive, tmp_path):
    found = prepare("box://user:pass@shelf/digits.mar?key=secret#tail", Store(archive)).model

    assert Path(found.directory).is_relative_to(tmp_path / "cache")
    assert (found.source, found.scratch) == ("box://shelf/digits.mar", "")
    assert not (tmp_path / "run/a/1").exists()


def test_directory_of_a_url_is_served_in_the_scratch_and_kept(prepare, model, tmp_path):
    found = prepare("box://shelf/digits", Store(model())).model

    assert found.directory == str(tmp_path / "run/a/1/model")
    assert found.scratch == str(tmp_path / "run/a/1")
    assert (tmp_path / "run/a/1").stat().st_mode & 0o777 == 0o700


def test_directory_elsewhere_is_left_alone(prepare, model, tmp_path):
    directory = model()

    class Mount:
        @hookimpl
        def open_archive(self, url):
            return directory

    found = prepare("nfs://host/digits", Mount()).model

    assert (found.directory, found.scratch) == (str(directory), "")
    assert not (tmp_path / "run/a/1").exists()


def test_progress_is_passed_on(prepare, archive, monkeypatch):
    monkeypatch.setattr("servekit.supervisor.preparing.opening.STEP_S", 0.0)
    prepare("box://shelf/digits.mar", Store(archive))

    assert prepare.steps[0] == "fetching 75 %"


def fail(error):
    class Failing:
        @hookimpl
        def open_archive(self, url):
            raise error

    return Failing()


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        pytest.param(None, "no installed plugin opens s3:// archives", id="nobody"),
        pytest.param(fail(StartupError("no key")), "no key", id="said by the plugin"),
        pytest.param(fail(OSError(5, "I/O error")), "[Errno 5] I/O error", id="store"),
        pytest.param(fail(RuntimeError("oops")), "RuntimeError: oops", id="bug"),
    ],
)
def test_url_that_cannot_be_opened_is_named_without_its_secrets(
    prepare, tmp_path, plugin, complaint
):
    outcome = prepare("s3://user:pass@b/x.mar?key=1", *filter(None, [plugin]))

    assert outcome.error == f"s3://b/x.mar: {complaint}"
    assert not (tmp_path / "run/a/1").exists()


def test_the_first_plugin_decides_and_a_wrapper_sees_what_it_returns(prepare, archive):
    seen = []

    class Cache:
        @hookimpl(wrapper=True)
        def open_archive(self, url):
            path = yield
            seen.append(path)
            return path

    first, second = Store(archive), Store(archive)
    found = prepare("box://shelf/digits.mar", second, first, Cache()).model

    assert (len(first.asked), len(second.asked), len(seen)) == (1, 0, 1)
    assert found.name == "digits"


def test_local_paths_are_not_offered(prepare, archive):
    store = Store(archive)
    prepare(archive, store)

    assert store.asked == []


# ---------------------------------------------------------------- decrypt_archive


class Turned:
    """Decrypts files that were written from back to front."""

    @hookimpl
    def decrypt_archive(self, path, target, find_key):
        content = path.read_bytes()[::-1]
        if not content.startswith(b"PK"):
            return None
        target.write_bytes(content)
        return find_key("turn") == b"key" or None

    @hookimpl
    def find_archive_key(self, key_id):
        return {"turn": b"key"}.get(key_id)


@pytest.fixture
def turned(archive):
    archive.write_bytes(archive.read_bytes()[::-1])
    return archive


@pytest.fixture
def memory(tmp_path):
    path = Path("/dev/shm", f"servekit-run-{tmp_path.name}-{os.getpid()}")
    yield path / "0-1"
    shutil.rmtree(path, ignore_errors=True)


def test_a_local_file_is_decrypted_into_memory(prepare, turned, memory):
    model = prepare(turned, Turned(), memory=str(memory)).model

    assert Path(model.directory) == memory / "models" / model.digest
    assert model.scratch == str(memory)


def test_a_file_from_a_url_is_decrypted_and_the_download_is_removed(
    prepare, turned, memory, tmp_path
):
    model = prepare("box://shelf/a.mar", Store(turned), Turned(), memory=str(memory)).model

    assert Path(model.directory).is_relative_to(memory)
    assert not (tmp_path / "run/a/1").exists()


def test_an_encrypted_file_that_nobody_decrypts_is_called_so(prepare, tmp_path, memory):
    (tmp_path / "a.mar.enc").write_bytes(b"servekit-enc-1\r\n" + bytes(100))
    outcome = prepare(tmp_path / "a.mar.enc", memory=str(memory))

    assert outcome.error.endswith("a.mar.enc: is encrypted; no installed plugin decrypts it")
    assert not memory.exists()


def test_a_directory_of_another_user_in_memory_is_not_used(prepare, turned, memory):
    memory.parent.mkdir()
    memory.parent.chmod(0o777)

    assert "others may write to it" in prepare(turned, Turned(), memory=str(memory)).error


def test_a_place_that_is_not_in_memory_is_not_used(prepare, turned, tmp_path, monkeypatch):
    monkeypatch.setattr("servekit.supervisor.os.memory_directory.IN_MEMORY", ())

    error = prepare(turned, Turned(), memory=str(tmp_path / "run-1" / "0-1")).error
    assert "is on a file system of type" in error


# ---------------------------------------------------------------- accept_archive


def test_what_is_known_of_an_archive(prepare, archive, tmp_path):
    guard = Guard(lambda _archive: None)
    found = prepare(archive, guard, name="two").model
    (seen,) = guard.seen

    assert (seen.name, seen.version, seen.source) == ("two", "1.0", str(archive))
    assert (seen.path, seen.directory) == (archive, Path(found.directory))
    assert (seen.digest, seen.manifest["service"]) == (found.digest, "service:S")


def test_a_directory_has_no_digest(prepare, model):
    guard = Guard(lambda _archive: None)
    prepare(model(), guard)

    assert guard.seen[0].digest == ""


def test_any_refusal_wins_and_every_reason_is_told(prepare, archive):
    refuse = [Guard(lambda _a, text=text: Refused(text)) for text in ("unsigned", "too large")]
    outcome = prepare(archive, Guard(lambda _archive: None), *refuse)

    assert outcome.model is None
    assert outcome.error == "refused: too large; unsigned"


@pytest.mark.parametrize(
    ("judge", "complaint"),
    [
        pytest.param(lambda _a: True, "refused: accept_archive returned True", id="nonsense"),
        pytest.param(lambda _a: 1 / 0, "accept_archive failed: ZeroDivisionError: ", id="bug"),
        pytest.param(
            lambda _a: Path("/nowhere").stat(), "accept_archive failed: FileNotFound", id="file"
        ),
    ],
)
def test_a_plugin_that_fails_refuses(prepare, archive, judge, complaint):
    assert prepare(archive, Guard(judge)).error.startswith(complaint)


def test_a_plugin_sees_the_policy_and_says_which_rules_are_kept(prepare, archive):
    class Signed:
        @hookimpl
        def accept_archive(self, policy):
            return Kept(policy.rules) if policy.trusted_keys == ("/keys",) else None

    policy = Policy(rules=("signed",), trusted_keys=("/keys",))

    assert prepare(archive, Signed(), policy=policy).model.name == "digits"


def test_a_rule_that_no_plugin_knows_refuses_everything(prepare, archive):
    guard = Guard(lambda _archive: Kept(("signed",)))
    outcome = prepare(archive, guard, policy=Policy(rules=("signed", "no-pickel")))

    assert outcome.error == "refused: no installed plugin knows the rule no-pickel"
    assert outcome.is_refused


def test_a_refusal_names_the_file_and_the_rule(prepare, archive):
    guard = Guard(lambda _archive: Refused("is a pickle", "no-pickle", "a/b.pkl"))
    outcome = prepare(archive, guard, policy=Policy(rules=("no-pickle",)))

    assert outcome.error == "refused: a/b.pkl: is a pickle (rule no-pickle)"


def test_a_policy_is_applied_where_no_plugin_is_for_archives(archive, monkeypatch, tmp_path):
    monkeypatch.setattr(archive_plugins, "may_have_judges", lambda _path: False)
    monkeypatch.setattr(
        archive_plugins, "judges", lambda _required: create_plugin_manager(discover=False)
    )
    request = PrepareRequest(
        str(archive), cache_dir=str(tmp_path / "cache"), policy=Policy(rules=("signed",))
    )

    assert answer(request, lambda step: None).is_refused


def test_another_error_is_no_refusal(prepare, tmp_path):
    assert not prepare(tmp_path / "nothing.mar").is_refused


def test_a_refused_archive_has_nothing_installed(prepare, model):
    directory = model()
    (directory / "requirements.txt").write_text("no-such-package==1\n")
    outcome = prepare(directory, Guard(lambda _a: Refused("no")), install_requirements=True)

    assert outcome.error == "refused: no"


# ---------------------------------------------------------------- which plugins are imported


def test_plugins_are_not_imported_where_none_is_for_archives(archive, monkeypatch, tmp_path):
    monkeypatch.setattr(archive_plugins, "judges", lambda required: pytest.fail("imported"))
    monkeypatch.setattr(archive_plugins, "may_have_judges", lambda _path: False)
    request = PrepareRequest(str(archive), cache_dir=str(tmp_path / "cache"))

    assert answer(request, lambda step: None).model.name == "digits"


def install(place, name, section, module):
    info = place / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"{section}\n{name} = {module}\n")


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        pytest.param([], False, id="no plugin"),
        pytest.param(["[servekit]"], False, id="another plugin"),
        pytest.param(
            ["[servekit]", "[servekit.accept_archive]"], True, id="one that accepts archives"
        ),
    ],
)
def test_entry_points_are_found(tmp_path, sections, expected):
    for number, section in enumerate(sections):
        install(tmp_path, f"p{number}", section, "m")
    (tmp_path / "other.dist-info").mkdir()

    assert may_have_judges(["/nowhere", str(tmp_path)]) is expected


def test_packages_in_a_zip_file_are_looked_at_the_slow_way(tmp_path):
    (tmp_path / "packages.zip").touch()

    assert may_have_judges([str(tmp_path / "packages.zip")])


HOOKS = """
from servekit import hookimpl
@hookimpl
def accept_archive(archive):
    print("asked")
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a plugin that guards archives, under some sections of entry points."""

    def run(*sections, hooks=HOOKS):
        (tmp_path / "guard_hooks.py").write_text(hooks)
        lines = [f"{section}\nguard = guard_hooks" for section in sections]
        install(tmp_path, "guard", lines[0].partition("\n")[0], "guard_hooks")
        (tmp_path / "guard-1.0.dist-info/entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(str(tmp_path))

    yield run
    sys.modules.pop("guard_hooks", None)


BOTH = ("[servekit]", "[servekit.accept_archive]")


def test_an_installed_plugin_is_asked(installed, archive, tmp_path, capsys):
    installed(*BOTH)
    request = PrepareRequest(str(archive), cache_dir=str(tmp_path / "cache"))

    assert answer(request, lambda step: None).model
    assert capsys.readouterr().out == "asked\n"


def test_a_required_plugin_that_is_broken_refuses_every_archive(installed, archive, tmp_path):
    installed(*BOTH, hooks="import no_such_module")
    request = PrepareRequest(
        str(archive), cache_dir=str(tmp_path / "cache"), required_plugins=["guard"]
    )

    error = answer(request, lambda step: None).error
    assert error.startswith("plugin guard is required and broken: ModuleNotFoundError")


def test_a_broken_plugin_that_nobody_requires_is_named(installed, archive, tmp_path, capsys):
    installed(*BOTH, hooks="import no_such_module")
    request = PrepareRequest(str(archive), cache_dir=str(tmp_path / "cache"))

    assert answer(request, lambda step: None).model
    assert "plugin guard is not asked: ModuleNotFoundError" in capsys.readouterr().err


def test_a_plugin_that_is_not_named_in_the_group_is_broken(installed):
    installed(BOTH[0])
    (found,) = [each for each in create_plugin_manager().installed if each.name == "guard"]

    assert found.module is None
    assert found.error.endswith("but is not named in the group servekit.accept_archive")


def test_a_required_plugin_that_is_missing_refuses_every_archive(archive, tmp_path):
    request = PrepareRequest(
        str(archive), cache_dir=str(tmp_path / "cache"), required_plugins=["lost"]
    )

    assert answer(request, lambda step: None).error == "plugin lost is required and not installed"


# ---------------------------------------------------------------- a whole server


@pytest.mark.slow
@pytest.mark.e2e
def test_a_server_loads_from_urls_and_refuses_what_the_policy_refuses(
    start, archive, model, tmp_path, run_dir
):
    pytest.importorskip("servekit_fsspec")
    pytest.importorskip("servekit_policy")
    other = tmp_path / "other.mar"
    build_archive(model("other"), other)
    policy = tmp_path / "policy.toml"
    policy.write_text("[[allow]]\nname = 'digits'\nsource = 'file://*'\n")
    server = start(
        f"file://{archive}", f"two=file://{archive}", other, "foo://nowhere/x.mar",
        POLICY_FILE=str(policy),
    )  # fmt: skip
    serving = server.wait_for("serving")

    assert serving["models"] == ["digits/1.0"]
    reasons = {e["subject"]: e["reason"] for e in server.events if e["event"] == "model_failed"}
    assert reasons["two"].startswith("refused: two 1.0 (digest ")
    assert reasons["other"].startswith("refused: other 1.0 (digest ")
    assert reasons["x"] == "foo://nowhere/x.mar: no installed plugin opens foo:// archives"
    assert list(run_dir.glob("servekit-run-*/archives/*")) == []


@pytest.mark.slow
@pytest.mark.e2e
def test_a_served_scratch_is_removed_when_it_is_replaced(start, model, tmp_path, run_dir):
    directory, shelf = model(), tmp_path / "plugins"
    shelf.mkdir()
    (shelf / "mount_hooks.py").write_text(
        "import shutil\nfrom servekit import hookimpl\n@hookimpl\n"
        "def open_archive(url, scratch):\n"
        f"    return shutil.copytree({str(directory)!r}, scratch / 'model')\n"
    )
    install(shelf, "mount", "[servekit]", "mount_hooks")
    server = start("mount://digits", PYTHONPATH=os.pathsep.join([str(shelf), *sys.path[:0]]))
    server.wait_for("serving")
    (first,) = run_dir.glob("servekit-run-*/archives/*")
    server.signal(1)
    server.wait_for("model_reloaded")

    from .conftest import wait_until

    wait_until(lambda: not first.exists(), "the old directory is still there")
    assert len(list(run_dir.glob("servekit-run-*/archives/*"))) == 1
