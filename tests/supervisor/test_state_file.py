# SPDX-License-Identifier: Apache-2.0
"""What was changed at run time, laid over the configuration of the next start."""

import stat

import pytest

from servekit.errors import StartupError
from servekit.ipc.table import TrafficRow
from servekit.settings.models import ModelSource
from servekit.supervisor.models.saved_models import SavedModel, SavedVersion, lay_over, unloaded
from servekit.supervisor.models.version_source import VersionSource
from servekit.supervisor.operations.state_file import StateFile

ONE = VersionSource("/one.mar", "digits")
TWO = VersionSource("/two.mar", "digits", {"replicas": 2})
SOURCE = ModelSource("/one.mar", "digits")


def saved(default=TWO, configured="digits=/one.mar", **parts):
    version = default and SavedVersion(default, "2.0", {"": 3})
    return SavedModel(configured=configured, name="digits", default=version, **parts)


class Notes:
    """The journal."""

    def __init__(self):
        self.notices = []

    def notice(self, notice):
        self.notices.append((notice.subject, notice.level, notice.text))


@pytest.mark.parametrize(
    ("sources", "found", "expected"),
    [
        pytest.param([SOURCE], [], [ONE], id="nothing was changed"),
        pytest.param([SOURCE], [saved()], [TWO], id="the configuration says the same as then"),
        pytest.param(
            [ModelSource("/new.mar", "digits")],
            [saved()],
            [VersionSource("/new.mar", "digits")],
            id="the configuration says something else now",
        ),
        pytest.param([SOURCE], [saved(default=None)], [], id="unloaded"),
        pytest.param([], [saved(configured="")], [TWO], id="loaded at run time"),
        pytest.param([], [saved()], [], id="no longer in the configuration"),
        pytest.param(
            [SOURCE], [saved(configured="")], [ONE], id="the name is in the configuration now"
        ),
    ],
)
def test_models_of_a_start(sources, found, expected):
    assert [start.source for start in lay_over(sources, found)] == expected


def test_a_model_that_was_unloaded_stays_known():
    gone = saved(default=None)

    assert unloaded([SOURCE], [gone]) == [gone]
    assert unloaded([], [gone]) == []


def test_what_is_written_is_read(tmp_path):
    path, notes = tmp_path / "state.json", Notes()
    model = saved(
        others=[SavedVersion(ONE, "1.0")],
        previous=SavedVersion(ONE, "1.0"),
        scaled={"": 3},
        traffic=TrafficRow(aliases={"canary": "1.0"}, weights={"1.0": 1, "2.0": 9}),
    )
    StateFile(str(path), notes).save([model])

    assert StateFile(str(path), notes).saved == [model]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_no_file_is_an_empty_one(tmp_path):
    assert StateFile(str(tmp_path / "none.json"), Notes()).saved == []
    StateFile("", Notes()).save([saved()])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("{", "truncated", id="half a file"),
        pytest.param('{"format": 2, "models": []}', "format 2 is not 1", id="later format"),
        pytest.param('{"format": 1, "models": [{}]}', "configured", id="another content"),
    ],
)
def test_a_file_that_cannot_be_read_ends_the_start(tmp_path, content, problem):
    path = tmp_path / "state.json"
    path.write_text(content)

    with pytest.raises(StartupError, match=rf"state: {path}.*{problem}"):
        StateFile(str(path), Notes())


def test_a_file_that_cannot_be_written_is_reported(tmp_path):
    notes = Notes()
    StateFile(str(tmp_path / "none" / "state.json"), notes).save([saved()])

    ((subject, level, text),) = notes.notices
    assert (subject, level) == ("servekit", "error")
    assert "No such file" in text


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        pytest.param("{}/none/state.json", "none: no such directory", id="no directory"),
        pytest.param("{}/file/state.json", "Not a directory", id="a file"),
        pytest.param("/proc/self/state.json", "/proc/self: not writable", id="not writable"),
    ],
)
def test_a_directory_that_cannot_keep_changes_is_refused(tmp_path, state, problem):
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match=rf"^state: .*{problem}$"):
        StateFile(state.format(tmp_path), Notes()).check_writable()


def test_the_log_says_what_counts(tmp_path):
    path, notes = tmp_path / "state.json", Notes()
    StateFile(str(path), notes).save([saved(), saved(default=None, configured="/other.mar")])
    state = StateFile(str(path), notes)
    state.tell(lay_over([SOURCE, ModelSource("/other.mar")], state.saved))
    state.tell(lay_over([ModelSource("/new.mar", "digits")], state.saved))

    texts = [text for _, _, text in notes.notices]
    assert "2.0 from /two.mar" in texts[0]
    assert "was unloaded at run time" in texts[1]
    assert "the configuration has changed" in texts[2]
