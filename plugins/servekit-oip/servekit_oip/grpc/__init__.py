# SPDX-License-Identifier: Apache-2.0
"""``inference.GRPCInferenceService``: the Open Inference Protocol over gRPC.

A separate process (``python -m servekit_oip.grpc``) speaks gRPC and passes each inference to the
front-ends as an HTTP request, whose body is the protobuf message as it has arrived:

    messages    the protobuf messages
    wire        parts of messages, read and written without parsing the rest
    settings    ``[plugins.oip]``
    offers      which processes there are
    protocol    in front-ends: the path of an inference, and errors
    envelope    in workers: from a message to tensors, and back
    server      the process: it listens, and finds what answers a call
    limits      what all connections of clients share
    frames      frames of HTTP/2
    http2       connections of clients, whose streams are calls
    sending     what they send
    call        one call
    codes       status codes
    inference   the calls that predict
    questions   the calls about models, answered by the REST half
    health      the health service of gRPC
    reflection  the reflection service of gRPC
    http        requests to the front-ends, over http_connection
"""
