# SPDX-License-Identifier: Apache-2.0
"""``inference.GRPCInferenceService``: the Open Inference Protocol over gRPC.

A separate process (``python -m servekit_oip.grpc``) speaks gRPC and passes each inference to the
front-ends as an HTTP request, whose body is the protobuf message as it has arrived:

    messages    the protobuf messages
    wire        parts of messages, read and written without parsing the rest
    settings    ``[plugins.oip]``
    protocol    in front-ends: the path of an inference, and errors
    envelope    in workers: from a message to tensors, and back
    http        in the process: connections to the front-ends
    inference   in the process: the calls that predict
    questions   in the process: the calls about models, answered by the REST half
    health      in the process: the health service of gRPC
    server      the process
"""
