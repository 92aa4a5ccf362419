# SPDX-License-Identifier: Apache-2.0
"""A client of the two gRPC services of TorchServe, whichever server has them."""

import grpc
from servekit_torchserve.grpc.messages import methods_of

STREAMS = {"StreamPredictions": "unary_stream", "StreamPredictions2": "stream_stream"}
WAIT_S = 240.0


class GrpcClient:
    """Calls the methods of a service, once it listens."""

    def __init__(self, port, service, token=""):
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        grpc.channel_ready_future(self._channel).result(WAIT_S)
        self._service, self._methods = service, methods_of(service)
        self._metadata = [("authorization", f"Bearer {token}")] if token else []

    def call(self, method, given=None, **fields):
        request, response = self._methods[method]
        make = getattr(self._channel, STREAMS.get(method, "unary_unary"))
        function = make(
            f"/{self._service}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        sent = request(**fields) if given is None else iter([request(**each) for each in given])
        return function(sent, timeout=WAIT_S, metadata=self._metadata)

    def close(self):
        self._channel.close()
