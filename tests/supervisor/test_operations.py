# SPDX-License-Identifier: Apache-2.0
"""Operations step by step, with workers and prepare children that only stand in for them."""

from dataclasses import replace

import pytest

from servekit.ipc.operations import (
    Load,
    ReloadModels,
    RollBack,
    Scale,
    SetTraffic,
    Swap,
    Unload,
)
from servekit.settings import Settings
from servekit.settings.deployments import Deployment
from servekit.settings.models import ModelSource
from servekit.supervisor.models.reconfiguring import reconfigure
from servekit.supervisor.models.version_source import VersionSource
from servekit.supervisor.operations import watching
from servekit.supervisor.operations.progress import OperationFailed
from servekit.supervisor.operations.server import OperatedServer, source_of
from servekit.supervisor.os.coroutines import sleep

from .in_process import FakeWorker, InProcess


@pytest.fixture
def server(monkeypatch, run_dir):
    """Serve ``digits/1.0``."""
    server = InProcess(monkeypatch, run_dir, "/digits-1.0")
    yield server
    server.close()


QUICK = {"watch_s": 0.0, "keep_s": 0.0}


def versions(row):
    return [row.version, *(each.version for each in row.versions)]


def steps(row):
    return [step.name for step in row.steps]


# ---------------------------------------------------------------- models and versions


def test_a_model_is_loaded_and_unloaded(server):
    loaded = server.do(Load(source="/other-1.0"))
    served = set(server.models)
    again = server.do(Load(source="/OTHER-1.0b"))
    gone = server.do(Unload(model="other"))

    assert (loaded.state, loaded.model, loaded.version) == ("done", "other", "1.0")
    assert steps(loaded) == ["prepare", "load"]
    assert served == {"digits", "other"}
    assert (again.status, again.state) == (409, "failed")
    assert gone.state == "done"
    assert set(server.models) == {"digits"}


def test_a_model_on_demand_is_loaded_by_the_first_request_not_by_the_operation(server):
    loaded = server.do(Load(source="/other-1.0:crash", settings={"replicas": 0}))
    other = server.models["other"]

    assert (loaded.state, steps(loaded)) == ("done", ["prepare"])
    assert other.is_asleep
    assert other.replicas == []


def test_a_version_is_loaded_again_to_wake_it_or_to_let_it_sleep(server):
    asleep = server.do(Load(source="/digits-1.0", model="digits", settings={"replicas": 0}))
    was_asleep, replicas = server.digits.is_asleep, server.digits.replicas
    awake = server.do(Load(source="/digits-1.0", model="digits", settings={"replicas": 2}))

    assert (asleep.state, was_asleep, replicas) == ("done", True, [])
    assert (awake.state, server.digits.is_asleep, len(server.digits.replicas)) == ("done", False, 2)
    assert versions(server.digits) == ["1.0"]


def test_one_more_version_has_no_traffic(server):
    row = server.do(Load(source="/digits-2.0", model="digits"))

    digits = server.digits
    assert row.state == "done"
    assert versions(digits) == ["1.0", "2.0"]
    assert digits.traffic.weights == {}
    assert server.do(Unload(model="digits", version="2.0")).state == "done"
    assert versions(server.digits) == ["1.0"]


def test_a_version_without_a_name_belongs_to_the_model_of_its_manifest(server):
    row = server.do(Load(source="/digits-2.0"))

    assert (row.model, versions(server.digits)) == ("digits", ["1.0", "2.0"])


def test_settings_of_an_operation_reach_the_version(server):
    server.do(Load(source="/digits-2.0", model="digits", settings={"replicas": 2}))

    (row,) = server.digits.versions
    assert len(row.replicas) == 2
    assert {each.name: each.source for each in row.settings}["replicas"] == "run time"


@pytest.mark.parametrize(
    ("operation", "status", "error"),
    [
        pytest.param(Unload(model="none"), 404, "no model 'none'; served: digits", id="no model"),
        pytest.param(Unload(model="digits", version="9"), 404, "no version 9", id="no version"),
        pytest.param(Unload(model="digits", version="1.0"), 409, "is the default", id="default"),
        pytest.param(
            Load(source="v.mar"), 422, "not a URL or an absolute path", id="relative path"
        ),
        pytest.param(Load(source="/none.mar"), 422, "no such file", id="no file"),
        pytest.param(
            Load(source="/", model="digits", settings={"replicas": "x"}),
            *(422, "replicas"),
            id="wrong setting",
        ),
        pytest.param(Scale(model="digits", replicas=0), 422, "needs at least 1", id="no replica"),
        pytest.param(Scale(model="digits", replicas={"min": 1}), 422, "range", id="range"),
        pytest.param(Scale(model="digits", replicas=2, stage="x"), 422, "no stage", id="stage"),
        pytest.param(Swap(model="digits"), 422, "either a source or a version", id="no source"),
        pytest.param(
            Swap(model="digits", version="1.0"), 409, "default version already", id="same"
        ),
        pytest.param(RollBack(model="digits"), 409, "no other default version", id="first version"),
        pytest.param(
            SetTraffic(model="digits", weights={"2.0": 1}),
            422,
            "no version 2.0",
            id="no such weight",
        ),
    ],
)
def test_operations_that_make_no_sense_are_refused(server, operation, status, error):
    row = server.do(operation)

    assert (row.state, row.status) == ("failed", status)
    assert error in row.error
    assert row.kind == type(operation).__struct_config__.tag


def test_of_two_operations_on_a_model_the_second_is_refused(server):
    first = server.begin(Swap(model="digits", source="/digits-2.0:slow", **QUICK))
    second = server.do(Scale(model="digits", replicas=2))

    assert (second.status, second.error.partition(";")[0]) == (409, "digits is busy: swap")
    server.until(lambda: first.state == "done")


def test_an_operation_that_runs_is_shown_however_many_are_refused_meanwhile(server):
    running = server.begin(Swap(model="digits", source="/digits-2.0:slow", **QUICK))
    refused = [server.begin(RollBack(model="digits")) for _ in range(150)]

    assert running.state == "running"
    assert server.rows[0] is running
    assert server.rows[1:] == refused[-100:]
    server.until(lambda: running.state == "done")


def test_traffic_is_in_the_table(server):
    server.do(Load(source="/digits-2.0", model="digits"))
    server.do(
        SetTraffic(model="digits", aliases={"canary": "2.0"}, weights={"canary": 5, "1.0": 95})
    )
    traffic = server.digits.traffic
    refused = server.do(Unload(model="digits", version="canary"))

    assert traffic.aliases == {"canary": "2.0"}
    assert traffic.weights == {"1.0": 95, "2.0": 5}
    assert (refused.status, "has traffic" in refused.error) == (409, True)


def test_a_digest_of_the_configuration_is_that_of_its_own_file(monkeypatch, run_dir):
    digest = Deployment(name="digits", sha256="1.0")  # what the prepare child compares here
    settings = Settings(deployments=(digest,))
    server = InProcess(monkeypatch, run_dir, "/digits-1.0", settings=settings)
    row = server.do(Swap(model="digits", source="/digits-2.0", **QUICK))
    back = server.do(RollBack(model="digits"))
    server.close()

    assert (row.state, row.error, back.state) == ("done", "", "done")


# ---------------------------------------------------------------- scale


def test_scale_up_and_down(server):
    up = server.do(Scale(model="digits", replicas=3))
    indexes = [replica.index for replica in server.digits.replicas]
    down = server.do(Scale(model="digits", replicas=1))

    assert (up.state, indexes) == ("done", [0, 1, 2])
    assert down.state == "done"
    assert [replica.index for replica in server.digits.replicas] == [0]


def test_the_scale_stays_when_the_version_changes(server):
    server.do(Scale(model="digits", replicas=2))
    server.do(Swap(model="digits", source="/digits-2.0", **QUICK))

    assert len(server.digits.replicas) == 2


def test_a_version_that_is_only_kept_for_a_rollback_is_not_scaled(server):
    server.do(Swap(model="digits", source="/digits-2.0", watch_s=0.0))
    server.do(Scale(model="digits", replicas=2))

    digits = server.digits
    assert [len(row.replicas) for row in (digits, *digits.versions)] == [2, 1]


def test_settings_of_a_swap_win_over_an_earlier_scale(server):
    server.do(Scale(model="digits", replicas=2))
    server.do(Swap(model="digits", source="/digits-2.0", settings={"replicas": 1}, **QUICK))

    assert len(server.digits.replicas) == 1


@pytest.mark.parametrize(("before", "wanted"), [(1, 3), (3, 2)], ids=["more", "fewer"])
def test_a_scale_that_fails_for_the_second_version_is_undone(server, monkeypatch, before, wanted):
    server.do(Scale(model="digits", replicas=before))
    server.do(Load(source="/digits-2.0", model="digits", settings={"replicas": 1}))
    is_first = iter([None, 507]).__next__
    monkeypatch.setattr(OperatedServer, "require_memory", lambda *_: refuse(is_first()))
    row = server.do(Scale(model="digits", replicas=wanted))
    server.until(lambda: [each.state for each in server.digits.replicas] == ["serving"] * before)
    (model,), (saved,) = server.registry, server.registry.saved

    assert (row.state, row.status) == ("failed", 507)
    assert steps(row) == ["scale", "scale", "roll back"]
    assert [len(each.replicas) for each in server.digits.versions] == [1]
    assert model.scaled == saved.default.scaled == {"": before}
    assert saved.others[0].scaled == {}


def refuse(status):
    """Raise what an operation raises with *status*, unless that is ``None``."""
    if status:
        raise OperationFailed(status, "there is no memory")


# ---------------------------------------------------------------- swap


def test_swap_step_by_step(server):
    row = server.do(Swap(model="digits", source="/digits-2.0", shift=[10, 50], step_s=0.1, **QUICK))

    assert (row.state, row.version) == ("done", "2.0")
    assert steps(row) == ["prepare", "load", "shift 10 %", "shift 50 %", "switch", "drain"]
    assert all(step.state == "done" and step.ended >= step.began for step in row.steps)
    assert versions(server.digits) == ["2.0"]
    assert server.digits.traffic.weights == {}


def test_shares_are_in_the_table_while_a_swap_shifts(server):
    row = server.begin(Swap(model="digits", source="/digits-2.0", shift=[10], step_s=0.1, **QUICK))
    server.until(lambda: server.digits.traffic.weights)

    assert server.digits.traffic.weights == {"1.0": 90, "2.0": 10}
    assert versions(server.digits) == ["1.0", "2.0"]
    server.until(lambda: row.state == "done")


@pytest.mark.parametrize(
    ("act", "error"),
    [
        pytest.param("broken", "wrong SHA-256", id="archive is refused"),
        pytest.param("crash", "exited with 7", id="worker dies as it loads"),
    ],
)
def test_a_version_that_cannot_be_loaded_changes_nothing(server, act, error):
    row = server.do(Swap(model="digits", source=f"/digits-2.0:{act}", shift=[50], **QUICK))

    assert (row.state, row.status) == ("failed", 422)
    assert error in row.error
    assert row.steps[-1].state == "failed"
    assert versions(server.digits) == ["1.0"]
    assert server.digits.replicas[0].state == "serving"


def test_a_version_whose_worker_dies_while_it_is_watched_is_rolled_back(server):
    row = server.do(Swap(model="digits", source="/digits-2.0:crash later", watch_s=20.0))

    assert (row.state, row.status) == ("failed", 422)
    assert "rolled back to 1.0: a worker died" in row.error
    assert steps(row)[-2:] == ["watch", "roll back"]
    assert versions(server.digits) == ["1.0"]


def test_after_a_swap_the_old_version_is_kept_for_a_rollback(server):
    server.do(SetTraffic(model="digits", aliases={"stable": "1.0"}))
    server.do(Swap(model="digits", source="/digits-2.0", watch_s=0.0))
    kept = versions(server.digits)
    alias = server.digits.traffic.aliases
    index = server.digits.versions[0].replicas[0].index
    row = server.do(RollBack(model="digits"))

    digits = server.digits
    assert (kept, alias) == (["2.0", "1.0"], {"stable": "2.0"})
    assert (row.state, row.version, steps(row)) == ("done", "1.0", ["switch", "drain"])
    assert versions(digits) == ["1.0", "2.0"]
    assert digits.replicas[0].index == index
    assert digits.traffic.aliases == {"stable": "1.0"}


def test_a_version_that_cannot_be_prepared_leaves_the_kept_one(server):
    server.do(Swap(model="digits", source="/digits-2.0", watch_s=0.0))
    failed = server.do(Swap(model="digits", source="/none.mar"))
    kept = versions(server.digits)
    row = server.do(Swap(model="digits", source="/digits-3.0", watch_s=0.0))
    replaced = versions(server.digits)

    assert (failed.state, kept) == ("failed", ["2.0", "1.0"])
    assert (row.state, replaced) == ("done", ["3.0", "2.0"])


def test_a_version_that_is_no_longer_loaded_is_loaded_again_for_a_rollback(server):
    server.do(Swap(model="digits", source="/digits-2.0", **QUICK))
    row = server.do(RollBack(model="digits"))

    assert (row.state, row.version) == ("done", "1.0")
    assert steps(row)[:2] == ["prepare", "load"]
    assert server.digits.version == "1.0"


def test_the_kept_version_leaves_after_its_time(server):
    server.do(Swap(model="digits", source="/digits-2.0", watch_s=0.0, keep_s=0.2))

    server.until(lambda: versions(server.digits) == ["2.0"])


def test_a_version_that_is_kept_anew_leaves_only_after_its_new_time(server):
    """The timer of an earlier swap does not count."""
    server.do(Swap(model="digits", source="/digits-2.0", watch_s=0.0, keep_s=0.5))
    server.do(RollBack(model="digits"))
    row = server.do(Swap(model="digits", version="2.0", watch_s=0.0, keep_s=60.0))
    is_later = []
    server.loop.call_later(0.7, lambda: is_later.append(True))
    server.until(lambda: is_later)

    assert row.state == "done", row.error
    assert versions(server.digits) == ["2.0", "1.0"]


def test_a_loaded_version_is_swapped_in(server):
    server.do(Load(source="/digits-2.0", model="digits"))
    server.do(SetTraffic(model="digits", aliases={"canary": "2.0"}))
    row = server.do(Swap(model="digits", version="canary", **QUICK))

    assert (row.state, row.version) == ("done", "2.0")
    assert versions(server.digits) == ["2.0"]


def test_a_version_of_the_same_name_takes_the_place_of_the_old(server):
    row = server.do(Swap(model="digits", source="/digits-1.0", watch_s=0.0, keep_s=30.0))
    index = server.digits.replicas[0].index
    back = server.do(RollBack(model="digits"))

    assert (row.state, index) == ("done", 1)
    assert back.state == "done"
    assert server.digits.replicas[0].index == 0
    assert versions(server.digits) == ["1.0"]


def test_one_by_one(server):
    server.do(Scale(model="digits", replicas=3))
    row = server.do(
        Swap(model="digits", source="/digits-2.0", one_by_one=True, step_s=0.1, watch_s=0.1)
    )

    digits = server.digits
    assert row.state == "done", row.error
    assert steps(row) == [
        *("prepare", "replace 1 of 3", "replace 2 of 3", "switch", "watch", "replace 3 of 3")
    ]
    assert versions(digits) == ["2.0"]
    assert [replica.state for replica in digits.replicas] == ["serving"] * 3


def test_one_by_one_rolls_back(server):
    server.do(Scale(model="digits", replicas=2))
    row = server.do(Swap(model="digits", source="/digits-2.0:crash", one_by_one=True))
    server.until(lambda: [each.state for each in server.digits.replicas] == ["serving"] * 2)

    assert (row.state, row.status) == ("failed", 422)
    assert steps(row)[-1] == "roll back"
    assert versions(server.digits) == ["1.0"]


def test_one_by_one_needs_two_replicas(server):
    row = server.do(Swap(model="digits", source="/digits-2.0", one_by_one=True))

    assert (row.status, "at least 2 replicas" in row.error) == (422, True)


def test_without_memory_nothing_is_started(server):
    server.available = 2**20
    row = server.do(Swap(model="digits", source="/digits-2.0"))

    assert (row.state, row.status) == ("failed", 507)
    assert "1 MiB are free" in row.error


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(Swap(model="digits", source="/digits-2.0"), id="swap"),
        pytest.param(Load(source="/digits-2.0"), id="load"),
        pytest.param(Scale(model="digits", replicas=2), id="scale"),
    ],
)
def test_models_stay_within_their_memory(server, operation):
    server.registry.settings = replace(server.registry.settings, models_memory=40 << 20)
    row = server.do(operation)

    assert (row.state, row.status) == ("failed", 507)
    assert "of 40 MiB for models; models that stay loaded take" in row.error


def test_a_version_that_errs_is_rolled_back_within_two_seconds(server, monkeypatch):
    pauses = []
    monkeypatch.setattr(watching, "sleep", lambda loop, s: pauses.append(s) or sleep(loop, s))
    row = server.begin(Swap(model="digits", source="/digits-2.0", shift=[20], step_s=20.0))
    server.until(lambda: server.digits.traffic.weights)
    server.counts.update({("2.0", 200): 80, ("2.0", 500): 20, ("1.0", 200): 400})
    pauses.clear()
    server.until(lambda: row.state == "failed")

    assert sum(pauses) < 2
    assert row.error == ("rolled back to 1.0: 20 % of 100 responses are errors, more than 5 %")
    assert server.digits.traffic.weights == {}
    assert versions(server.digits) == ["1.0"]


# ---------------------------------------------------------------- reload


def test_reload_tells_what_has_become_of_it(server):
    unchanged = server.do(ReloadModels())

    assert (unchanged.state, steps(unchanged)) == ("done", ["reload"])


def test_a_reload_that_comes_during_an_operation_waits(server):
    row = server.begin(Scale(model="digits", replicas=2))
    server.registry.load_all()
    server.until(lambda: row.state == "done")

    server.until(lambda: "model_unchanged" in [each.event for each in server.reporter.notices])


def test_a_version_that_comes_by_reload_takes_over_aliases(server):
    server.do(SetTraffic(model="digits", aliases={"stable": "1.0"}))
    (model,) = server.registry
    model.source = VersionSource("/digits-2.0")
    row = server.do(ReloadModels(model="digits"))

    assert row.state == "done"
    assert versions(server.digits) == ["2.0"]
    assert server.digits.traffic.aliases == {"stable": "2.0"}


def test_a_reload_that_fails_says_why(server):
    (model,) = server.registry
    model.source = VersionSource("/digits-2.0:crash")
    row = server.do(ReloadModels(model="digits"))

    assert (row.state, row.status) == ("failed", 422)
    assert "exited with 7" in row.error


def test_a_setting_whose_source_has_changed_is_shown_with_it(server):
    before = [each.source for each in server.digits.settings]
    deployment = Deployment(name="digits", replicas=1, source="servekit.toml")
    server.registry.settings = replace(server.registry.settings, deployments=[deployment])
    server.do(ReloadModels(model="digits"))

    assert before == ["default"]
    assert [each.source for each in server.digits.settings] == ["servekit.toml"]


# ---------------------------------------------------------------- what leaves meanwhile


@pytest.fixture
def told(monkeypatch):
    """What workers are told that have requests and do not leave yet: "retire" or "leave"."""
    told = []
    monkeypatch.setattr(FakeWorker, "retire", lambda worker: told.append((worker, "retire")))
    monkeypatch.setattr(FakeWorker, "leave", lambda worker: told.append((worker, "leave")))
    return told


def finish(server, told, row):
    """Let the workers leave that are *told* to, and the operation of *row* end."""
    for worker, _ in told:
        worker.kill("the test is over")
    server.until(lambda: row.state != "running")


def test_a_version_that_leaves_after_a_reload_may_finish_although_the_model_is_unloaded(
    server, told
):
    (model,) = server.registry
    model.source = VersionSource("/digits-2.0")
    server.do(ReloadModels(model="digits"))
    row = server.begin(Unload(model="digits"))
    finish(server, told, row)

    assert [order for _, order in told] == ["retire", "retire"]


def test_replicas_that_a_scale_has_left_over_may_finish_although_a_swap_follows(server, told):
    server.do(Scale(model="digits", replicas=2))
    (model,) = server.registry
    (version,) = model.versions
    version.resize("", 1)
    row = server.begin(Swap(model="digits", source="/digits-2.0", **QUICK))
    server.until(lambda: len(told) > 1)
    finish(server, told, row)

    assert [order for _, order in told] == ["retire", "retire"]


def test_a_kept_version_that_has_been_unloaded_is_loaded_again_for_a_rollback(server):
    server.do(Swap(model="digits", source="/digits-2.0", watch_s=0.0))
    unloaded = server.do(Unload(model="digits", version="1.0"))
    row = server.do(RollBack(model="digits"))

    assert (unloaded.state, row.state, row.version) == ("done", "done", "1.0")
    assert steps(row)[:2] == ["prepare", "load"]
    assert versions(server.digits) == ["1.0", "2.0"]


def test_a_rollback_is_to_the_version_before_not_to_an_older_one_that_is_kept(server):
    server.do(Swap(model="digits", source="/digits-2.0", watch_s=0.0))
    server.do(SetTraffic(model="digits", aliases={"prod": "2.0"}))
    server.do(Swap(model="digits", source="/digits-3.0", watch_s=0.0))
    row = server.do(RollBack(model="digits"))

    assert (row.state, row.version) == ("done", "2.0")


def test_a_version_of_the_same_name_leaves_although_an_alias_has_that_name(server):
    server.do(SetTraffic(model="digits", aliases={"prod": "1.0"}))
    old = server.digits.replicas[0].index
    server.do(Swap(model="digits", source="/digits-1.0", **QUICK))

    server.until(lambda: old not in {replica.index for replica in replicas_of(server)})


def replicas_of(server):
    (model,) = server.registry
    return [replica for version in model.versions for replica in version.replicas]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("/" + "a" * 300, "File name too long", id="a long name"),
        pytest.param("/a\0b", "no such file or directory", id="a null byte"),
        pytest.param("/no/such.mar", "no such file or directory", id="nothing"),
    ],
)
def test_a_source_that_cannot_be_looked_at_fails_the_operation(run_dir, path, reason):
    with pytest.raises(OperationFailed, match=reason) as failed:
        source_of(path, "", {})
    assert failed.value.status == 422


def test_an_operation_that_cannot_begin_for_a_bug_has_failed(server, monkeypatch):
    monkeypatch.setattr("servekit.supervisor.operations.operations.check_scale", None)
    with pytest.raises(TypeError):  # the event loop logs it
        server.do(Scale(model="digits", replicas=2))
    row = server._operations.rows[-1]

    assert (row.state, row.status) == ("failed", 500)


def test_a_version_of_a_model_that_was_found_by_its_manifest_is_saved(server):
    server.do(Load(source="/digits-2.0"))
    (model,) = server.registry

    assert model.is_changed


def test_a_path_that_changes_while_the_one_before_still_loads_is_loaded_next(server):
    settings = server.registry.settings
    reconfigure(server.registry, settings, [ModelSource("/digits-2.0:slow", "digits")])
    server.until(lambda: len(replicas_of(server)) > 1)
    reconfigure(server.registry, settings, [ModelSource("/digits-3.0", "digits")])

    server.until(lambda: versions(server.digits) == ["3.0"])
