# SPDX-License-Identifier: Apache-2.0
"""A replica of several processes: started, ready, killed and stopped as one."""

import json
import os
import signal
from pathlib import Path

import pytest

from servekit.cli import main
from servekit.system.processes import usage_of
from servekit.testing import ServedModel
from tests.processes import is_alive
from tests.waiting import wait_until

MODEL = Path(__file__).parent / "models" / "ranked"
EXAMPLE = Path(__file__).parents[2] / "examples" / "sharded-product"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def serve_model():
    started = []

    def start(*assignments, model=MODEL, **settings):
        flags = settings | ({"set": assignments} if assignments else {})
        started.append(ServedModel(model, **flags))
        return started[-1]

    yield start
    for served in started:
        served.stop()


def ranks_of(served, command="facts"):
    return served.predict(command).prediction


def are_gone(facts):
    return not any(is_alive(each["pid"]) for each in facts)


def test_each_rank_is_told_its_place_and_where_they_meet(serve_model):
    served = serve_model("ranked.ranks=3").wait_ready()
    facts = ranks_of(served)

    assert [each["rank"] for each in facts] == [0, 1, 2]
    assert [each["RANK"] for each in facts] == ["0", "1", "2"]
    assert [each["LOCAL_RANK"] for each in facts] == ["0", "1", "2"]
    assert {(each["world_size"], each["WORLD_SIZE"]) for each in facts} == {(3, "3")}
    assert len({(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in facts}) == 1
    assert served.worker_pid() == facts[0]["pid"]


def test_the_memory_of_a_replica_is_that_of_all_its_ranks(serve_model, tmp_path_factory, capsys):
    run_dir = tmp_path_factory.mktemp("r")
    served = serve_model(run_dir=run_dir).wait_ready()
    facts = ranks_of(served)
    status = main(["models", "--json", "--run-dir", str(run_dir)])
    (replica,) = json.loads(capsys.readouterr().out)[0]["replicas"]
    largest = max(usage_of(each["pid"]).memory_bytes for each in facts)

    assert status == 0
    assert replica["pid"] == facts[0]["pid"]
    assert replica["memory_bytes"] > 1.5 * largest


def test_all_ranks_of_a_replica_see_as_many_devices_as_there_are_ranks(serve_model):
    served = serve_model("ranked.devices=[0, 1, 4, 5]").wait_ready()
    served.log.wait_for("worker_ready", replica=1)
    seen = {each["CUDA_VISIBLE_DEVICES"] for each in ranks_of(served)}

    assert [devices_of(served.worker_pid(replica)) for replica in (0, 1)] == ["0,1", "4,5"]
    assert seen in ({"0,1"}, {"4,5"})


def devices_of(pid):
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(each.partition("=")[::2] for each in variables)["CUDA_VISIBLE_DEVICES"]


def test_devices_that_do_not_suffice_for_all_ranks_are_refused(serve_model):
    served = serve_model("ranked.devices=[0, 1, 2]")

    assert "3 devices cannot be shared out to replicas of 2 ranks" in str(
        served.log.wait_for("model_failed")
    )


def test_each_process_is_pinned_to_its_share_of_the_cpus(serve_model):
    first, second, *_ = [*sorted(os.sched_getaffinity(0)), None]
    if second is None:
        pytest.skip("needs two CPUs")
    facts = ranks_of(serve_model(f"ranked.cpus='{first},{second}'").wait_ready())

    assert [(each["cpus"], each["threads"]) for each in facts] == [([first], 1), ([second], 1)]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_restarts_all_of_them_as_one_crash(serve_model, rank):
    served = serve_model().wait_ready()
    before = ranks_of(served)
    os.kill(before[rank]["pid"], signal.SIGKILL)
    exited = served.log.wait_for("worker_exited")
    served.log.wait_for("worker_ready", generation=2)
    after = ranks_of(served)

    assert are_gone(before)
    assert f"rank {rank}: " in str(exited)
    assert len(served.log.find("worker_exited")) == 1
    assert not {each["pid"] for each in before} & {each["pid"] for each in after}
    assert [each["rank"] for each in after] == [0, 1]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("crash", "rank 1: exited with 7"),
        ("raise", "rank 1: follow failed: ZeroDivisionError"),
        ("return", "rank 1: its follow() returned"),
    ],
)
def test_a_rank_that_ends_is_named_as_the_cause(serve_model, command, told):
    served = serve_model().wait_ready()
    answer = served.predict(command)

    assert answer.status in (500, 503)
    assert told in str(served.log.wait_for("worker_exited"))
    served.log.wait_for("worker_ready", generation=2)
    assert len(ranks_of(served)) == 2


def test_a_rank_that_hangs_is_ended_with_its_group_when_the_prediction_is(serve_model):
    served = serve_model(predict_timeout=5.0).wait_ready()
    before = ranks_of(served)

    assert served.predict("hang").status == 504
    served.log.wait_for("worker_ready", generation=2)
    assert are_gone(before)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_cannot_load_ends_the_load_of_all(serve_model, rank):
    served = serve_model(f"ranked.options.broken_rank={rank}")
    exited = served.log.wait_for("worker_exited")

    assert f"rank {rank}: ValueError: no shard" in str(exited)
    assert served.log.find("worker_ready") == []


def test_a_rank_that_does_not_get_ready_ends_the_load_of_all(serve_model):
    served = serve_model("ranked.options.slow_rank=1", load_timeout=5.0)

    assert "not ready after 5 s" in str(served.log.wait_for("worker_exited"))
    assert served.log.find("worker_ready") == []


def test_a_stop_leaves_no_process(serve_model):
    served = serve_model(replicas=2).wait_ready()
    served.log.wait_for("worker_ready", replica=1)
    facts = ranks_of(served)

    assert served.stop() == 0
    assert are_gone(facts)


def test_a_killed_server_leaves_no_process(serve_model):
    served = serve_model().wait_ready()
    facts = ranks_of(served)
    served.process.kill()

    wait_until(lambda: are_gone(facts), "all ranks are gone")


def test_a_matrix_product_is_sharded_over_two_ranks(serve_model):
    served = serve_model(model=EXAMPLE).wait_ready()

    assert served.predict({"x": [1, 0, 0, 1]}).prediction == {"y": [18, 20, 22, 24, 26, 28]}
    assert served.predict({"x": [0, 1, 0, 0]}).prediction == {"y": [6, 7, 8, 9, 10, 11]}
