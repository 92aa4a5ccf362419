# SPDX-License-Identifier: Apache-2.0
"""The gRPC addresses outlive calls and streams that send nothing."""

import threading
from argparse import Namespace
from contextlib import contextmanager

import pytest

grpc = pytest.importorskip("grpc")

from servekit_torchserve.grpc import server as grpc_server  # noqa: E402 - it needs grpc
from servekit_torchserve.grpc.limits import CONVERSATIONS  # noqa: E402
from servekit_torchserve.grpc.messages import INFERENCE, methods_of  # noqa: E402

pytestmark = pytest.mark.slow

WAIT_S = 180.0
LIMIT_S = 2.0  #: within which a client that is not silent sends its message
NO_LIMIT_S = 600.0


def predict(request, _context):
    """Answer with nothing."""
    return methods_of(INFERENCE)["Predictions"][1](prediction=b"here")


def converse(requests, context):
    """Answer each request of a stream."""
    for request in requests:
        yield predict(request, context)


@contextmanager
def serving(capsys, limit_s):
    """Serve; yield a function that opens a call of a method, without a message if none is given."""
    arguments = Namespace(
        max_message=1 << 20,
        tls_certificate="",
        header_timeout=60,
        body_timeout=limit_s,
        keep_alive=0,
    )
    methods = {"Predictions": predict, "StreamPredictions2": converse}
    served = grpc_server._listen("127.0.0.1:0", INFERENCE, methods, arguments)
    port = capsys.readouterr().out.strip().rpartition(":")[2]
    ended = threading.Event()

    def open_call(name, messages=0):
        request, response = methods_of(INFERENCE)[name]

        def requests():
            yield from [request()] * messages
            ended.wait(WAIT_S)

        return channel.stream_stream(
            f"/{INFERENCE}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )(requests(), timeout=WAIT_S)

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield open_call
        ended.set()
    served.stop(0).wait(WAIT_S)


def status_of(call):
    """Wait until a call ends; return its status."""
    with pytest.raises(grpc.RpcError) as ended:
        list(call)
    return ended.value.code()


@pytest.mark.parametrize("name", ["Predictions", "StreamPredictions2"])
def test_calls_without_a_message_make_room_for_others(capsys, monkeypatch, name):
    monkeypatch.setattr(grpc_server, "THREADS", 4)
    with serving(capsys, LIMIT_S) as open_call:
        silent = [open_call(name) for _ in range(4)]
        assert next(open_call("Predictions", 1)).prediction == b"here"
        assert [status_of(each) for each in silent] == [grpc.StatusCode.CANCELLED] * 4


def test_a_stream_that_falls_silent_ends(capsys):
    with serving(capsys, LIMIT_S) as open_call:
        call = open_call("StreamPredictions2", 2)
        assert [next(call).prediction, next(call).prediction] == [b"here"] * 2
        assert status_of(call) is grpc.StatusCode.CANCELLED


def test_idle_streams_leave_threads_to_predictions(capsys):
    with serving(capsys, NO_LIMIT_S) as open_call:
        idle = [open_call("StreamPredictions2", 1) for _ in range(CONVERSATIONS)]
        assert all(next(each).prediction == b"here" for each in idle)

        assert status_of(open_call("StreamPredictions2", 1)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert next(open_call("Predictions", 1)).prediction == b"here"
        for each in idle:
            each.cancel()
