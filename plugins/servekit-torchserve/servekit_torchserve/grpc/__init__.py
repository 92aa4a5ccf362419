# SPDX-License-Identifier: Apache-2.0
"""The two gRPC services of TorchServe.

A separate process (``python -m servekit_torchserve.grpc``) passes each prediction to the
front-ends as a request over HTTP, and each call of management to the same code as
``servekit_torchserve.management``:

    messages    the protobuf messages
    predictions the calls that predict
    calls       the calls that manage
    limits      limits for clients that send nothing
    server      the process
"""
