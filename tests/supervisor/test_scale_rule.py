# SPDX-License-Identifier: Apache-2.0
"""When a stage gets a replica more or one less; the clock is a number."""

import pytest

from servekit.ipc.model_counters import StageCounts
from servekit.supervisor.operations.scale_rule import GROW_AFTER_S, SHRINK_AFTER_S, ScaleRule

STEP_S = 0.5


class Stage:
    """Counts as front-ends do."""

    def __init__(self, delay_s=0.0):
        self.rule = ScaleRule(delay_s)
        self.now, self.counts = 100.0, StageCounts(0, 0.0, 0.0, 0, 0)

    def run(self, for_s, *, batches, queue_s, predict_s, replicas, waiting=0, running=0):
        """Answer *batches* a second; return the first step that is not 0, and when."""
        began = self.now
        while self.now < began + for_s:
            self.now += STEP_S
            more = batches * STEP_S
            self.counts = StageCounts(
                self.counts.batches + more,
                self.counts.queue_s + more * queue_s,
                self.counts.predict_s + more * predict_s,
                waiting,
                running,
            )
            if step := self.rule.step(self.now, self.counts, replicas):
                return step, self.now - began
        return 0, for_s


def test_grows_once_tasks_have_waited_long_enough():
    step, after_s = Stage().run(60, batches=20, queue_s=0.2, predict_s=0.05, replicas=1)

    assert (step, after_s) == (1, GROW_AFTER_S + STEP_S)


def test_a_short_burst_does_not_count():
    stage = Stage()
    stage.run(8, batches=20, queue_s=0.0, predict_s=0.02, replicas=1)
    step, _ = stage.run(0.5, batches=20, queue_s=0.3, predict_s=0.02, replicas=1)

    assert step == 0


@pytest.mark.parametrize("queue_s", [0.03, 0.06, 0.09])
def test_between_the_bounds_nothing_changes(queue_s):
    stage = Stage()

    assert stage.run(120, batches=20, queue_s=queue_s, predict_s=0.01, replicas=3)[0] == 0


def test_shrinks_after_a_longer_time():
    step, after_s = Stage().run(60, batches=5, queue_s=0.001, predict_s=0.05, replicas=3)

    assert (step, after_s) == (-1, SHRINK_AFTER_S + STEP_S)


def test_stays_while_one_replica_less_would_be_busy_all_the_time():
    stage = Stage()

    # 18 batches a second of 50 ms keep 0.9 of a replica busy: two are not too many
    assert stage.run(120, batches=18, queue_s=0.0, predict_s=0.05, replicas=2)[0] == 0
    assert stage.run(120, batches=18, queue_s=0.0, predict_s=0.05, replicas=3)[0] == -1


def test_time_that_fills_a_batch_is_not_a_queue():
    assert Stage(0.5).run(60, batches=2, queue_s=0.5, predict_s=0.1, replicas=1)[0] == 0


def test_tasks_wait_for_a_predict_that_takes_longer_than_the_window():
    step, _ = Stage().run(60, batches=0, queue_s=0, predict_s=0, replicas=1, waiting=3, running=1)

    assert step == 1


def test_nothing_shrinks_during_a_predict_that_takes_long():
    stage = Stage()

    assert stage.run(120, batches=0, queue_s=0, predict_s=0, replicas=2, running=2)[0] == 0
    assert stage.run(120, batches=0, queue_s=0, predict_s=0, replicas=2)[0] == -1


def test_what_was_before_does_not_count():
    stage = Stage()
    stage.run(2, batches=20, queue_s=0.5, predict_s=0.05, replicas=1)
    stage.rule.forget()

    assert stage.run(1.5, batches=20, queue_s=0.5, predict_s=0.05, replicas=1)[0] == 0


def test_one_replica_stays():
    assert Stage().run(120, batches=0, queue_s=0, predict_s=0, replicas=1)[0] == 0
