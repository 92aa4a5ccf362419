# SPDX-License-Identifier: Apache-2.0
"""One request between its steps, in whatever order their answers come; stages only keep tasks."""

from time import monotonic
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.errors import InputError, PredictFailed, ResultNotEncodable, WorkerLost
from servekit.extension.http import HttpResponse
from servekit.frontend.pipelines.pipeline import REQUEST, Node, Pipeline
from servekit.frontend.pipelines.run import PipelineRun
from servekit.frontend.pipelines.submission import Submission
from servekit.frontend.pipelines.values import as_values
from servekit.ipc.batches import MODEL_VALUE, MODEL_VALUES, VALUE, VALUES, Item
from servekit.ipc.channel import ChannelClosed


class Stage:
    """Stands where a ``Batcher`` does: keeps what it is given."""

    admission, tracer = SimpleNamespace(refusal=lambda _size: None), None

    def __init__(self, name):
        self.row = SimpleNamespace(name=name, version="1", asked=[], predict_timeout_s=1.0)
        self.queue, self.timeout_s = Waiting(), 1.0
        self.bodies = SimpleNamespace(
            lay=lambda pieces: b"".join(map(bytes, pieces)), content=lambda body: body
        )
        self.tasks, self.cancelled, self.users = [], [], 0

    def hold(self, users):
        self.users += users

    def put(self, task):
        self.tasks.append(task)

    def cancel(self, task):
        self.cancelled.append(task)


class Waiting(list):
    capacity = 50


class Client:
    """A ``Responder`` that remembers what it gets."""

    exchange = None

    def __init__(self):
        self.said, self.statuses = [], []

    def respond(self, response):
        self.said.append(bytes(response.body))
        self.statuses.append(response.status)
        response.discard()

    def fail(self, error):
        self.said.append(error)
        self.statuses.append(error.status)


class Way:
    """A request on its way through *nodes*."""

    def __init__(self, *nodes):
        self.client, self.released, self.later = Client(), [], []
        loop = SimpleNamespace(run_callback=lambda call, *given: self.later.append((call, given)))
        self.pipeline = Pipeline(nodes, loop)
        item = Item(b"sent", b"text/plain", b"*/*", "r1", monotonic() + 9)
        submission = Submission(item, {}, monotonic(), monotonic() + 9)
        self.run = PipelineRun(self.pipeline, submission, self.client)
        self.taken = 0
        self.run.begin()

    def give(self, task, content, media_type=VALUE):
        """Let a worker answer *task*; its bytes are to be released once."""
        self.taken += 1
        number = self.taken
        task.is_done = True
        response = HttpResponse(200, content, media_type)
        response.release = lambda: self.released.append(number)
        task.consumer.take(task, response)

    def check_end(self):
        """Everything that was lent is released, once, and no stage is held any more."""
        for call, given_ in self.later:
            call(*given_)
        assert sorted(self.released) == [*range(1, self.taken + 1)]
        assert not any(node.batcher.users for node in self.pipeline.nodes)


def sent(task):
    """Return what a worker gets of *task*."""
    return task.item.body, task.item.content_type, task.item.accept


def chain():
    return [Node("a", Stage("a"), [REQUEST], []), Node("b", Stage("b"), [0], [])]


def listed(count):
    """Return a way whose second step has *count* tasks, and those."""
    one, each, last = Stage("one"), Stage("each"), Stage("last")
    way = Way(
        Node("one", one, [REQUEST], []),
        Node("each", each, [0], [], is_each=True),
        Node("last", last, [0, 1], ["one", "each"]),
    )
    parts = [bytes([number]) for number in range(count)]
    way.give(one.tasks[0], b"".join(as_values(parts)), VALUES)
    return way, each, last


def test_what_one_step_gives_the_next_one_gets_as_it_is():
    first, second = chain()
    way = Way(first, second)
    (task,) = first.batcher.tasks
    assert sent(task) == (b"sent", b"text/plain", VALUE.encode())
    way.give(task, b"\x93...", VALUE)
    (task,) = second.batcher.tasks
    assert sent(task) == (b"\x93...", VALUE.encode(), b"*/*")
    assert way.client.said == []

    way.give(task, b"answer", "application/json")
    assert (way.client.said, way.client.statuses) == ([b"answer"], [200])
    way.check_end()


@pytest.mark.parametrize("media_type", [MODEL_VALUE, MODEL_VALUES])
def test_objects_and_pickles_of_another_model_are_refused(media_type):
    first, second = chain()
    way = Way(first, second)
    way.give(first.batcher.tasks[0], b"pickle", media_type)

    assert second.batcher.tasks == []
    assert [type(error) for error in way.client.said] == [ResultNotEncodable]
    way.check_end()


@given(st.permutations(range(12)))
def test_elements_stand_in_their_order_in_whichever_their_answers_come(order):
    way, each, last = listed(12)
    assert [task.item.body for task in each.tasks] == [bytes([number]) for number in range(12)]
    for number in order:
        assert last.tasks == []
        way.give(each.tasks[number], bytes([100 + number]))

    (task,) = last.tasks
    cut, gathered = bytes(range(12)), bytes(range(100, 112))
    assert task.item.body == b"\x82\xa3one\x9c" + cut + b"\xa4each\x9c" + gathered
    way.give(task, b"answer")
    assert way.client.said == [b"answer"]
    way.check_end()


@given(st.permutations(range(6)), st.integers(0, 5))
def test_the_first_error_is_the_answer_and_the_rest_is_dropped(order, when):
    way, each, last = listed(6)
    for number in order[:when]:
        way.give(each.tasks[number], b"x")
    each.tasks[order[when]].fail(InputError("no"))
    late = order[when + 1 :]
    for number in late[: len(late) // 2]:
        way.give(each.tasks[number], b"late")
    for number in late[len(late) // 2 :]:
        each.tasks[number].fail(PredictFailed())

    assert [error.detail for error in way.client.said] == ["no"]
    assert (way.client.statuses, last.tasks) == ([422], [])
    way.check_end()
    assert {id(task) for task in each.cancelled} >= {id(each.tasks[number]) for number in late}


@given(st.permutations(range(6)), st.integers(0, 6))
def test_nothing_is_said_to_a_client_that_has_gone(order, when):
    way, each, _ = listed(6)
    for number in order[:when]:
        way.give(each.tasks[number], b"x")
    way.run.cancel()
    for number in order[when:]:
        way.give(each.tasks[number], b"late")

    assert (way.client.said, way.client.statuses) == ([], [])
    way.check_end()


def test_a_list_of_nothing_needs_nobody():
    way, each, last = listed(0)
    (task,) = last.tasks

    assert (each.tasks, task.item.body) == ([], b"\x82\xa3one\x90\xa4each\x90")
    way.give(task, b"answer")
    way.check_end()


def test_a_list_longer_than_the_queue_is_refused():
    way, each, _ = listed(51)

    assert [error.detail for error in way.client.said] == ["each: 51 elements, limit 50"]
    assert each.tasks == []
    way.check_end()


def test_a_peer_that_writes_no_list_is_in_doubt():
    one, each = Stage("one"), Stage("each")
    way = Way(Node("one", one, [REQUEST], []), Node("each", each, [0], [], is_each=True))
    with pytest.raises(ChannelClosed):
        way.give(one.tasks[0], b"\xff\xff\xff\xff", VALUES)

    assert [type(error) for error in way.client.said] == [WorkerLost]
    way.check_end()


def test_what_is_no_value_is_neither_cut_up_nor_put_together():
    def ways():
        one = Node("one", Stage("one"), [REQUEST], [])
        yield Way(one, Node("each", Stage("each"), [0], [], is_each=True)), one.batcher.tasks[0]
        one = Node("one", Stage("one"), [REQUEST], [])
        yield Way(one, Node("two", Stage("two"), [0, 0], ["a", "b"])), one.batcher.tasks[0]
        way, each, _ = listed(2)
        yield way, each.tasks[0]

    for way, task in ways():
        way.give(task, b"5", "text/plain")

        assert [type(error) for error in way.client.said] == [ResultNotEncodable]
        way.check_end()


def test_elements_may_be_cut_up_in_turn():
    one, outer, inner = Stage("one"), Stage("outer"), Stage("inner")
    Way(
        Node("one", one, [REQUEST], []),
        outer_node := Node("outer", outer, [0], [], is_each=True),
        Node("inner", inner, [1], [], is_each=True),
        Node("", inner, [2], []),
    )

    assert outer_node.accept == VALUE.encode()


def test_only_stages_of_one_model_hand_on_objects_of_its_classes():
    own = [Stage("a"), Stage("a")]
    way = Way(Node("one", own[0], [REQUEST]), Node("each", own[1], [0], is_each=True))
    way.give(own[0].tasks[0], b"".join(as_values([b"\1"])), MODEL_VALUES)

    assert sent(own[0].tasks[0])[2] == MODEL_VALUES.encode()
    assert sent(own[1].tasks[0])[1] == MODEL_VALUE.encode()


def test_values_of_another_kind_are_not_taken_between_stages():
    one, each = Stage("a"), Stage("a")
    way = Way(Node("one", one, [REQUEST]), Node("each", each, [0], is_each=True))
    way.give(one.tasks[0], b"".join(as_values([b"\1"])), VALUES)

    assert [type(error) for error in way.client.said] == [ResultNotEncodable]


def test_steps_that_need_the_request_alone_begin_together_and_their_end_is_awaited():
    left, right, both = Stage("left"), Stage("right"), Stage("both")
    way = Way(
        Node("left", left, [REQUEST], []),
        Node("right", right, [REQUEST], []),
        Node("both", both, [0, 1], ["left", "right"]),
    )
    way.give(right.tasks[0], b"\x02")
    assert both.tasks == []
    way.give(left.tasks[0], b"\x01")

    assert both.tasks[0].item.body == b"\x82\xa4left\x01\xa5right\x02"
    way.give(both.tasks[0], b"answer")
    way.check_end()
