# SPDX-License-Identifier: Apache-2.0
"""``inference.GRPCInferenceService``: the Open Inference Protocol over gRPC.

The front-ends speak gRPC at a separate address, and make a request of each inference. Its body is
the protobuf message as it has arrived:

    messages    the protobuf messages
    wire        parts of messages, read and written without parsing the rest
    settings    ``[plugins.oip]``
    protocol    the path of an inference, and errors
    envelope    in workers: from a message to tensors, and back
    plain       the same for frequent requests, with less work
    contents    elements that are not raw
    limits      what one client may cost
    frames      frames of HTTP/2
    http2       connections of clients
    streams     their streams, which are calls
    sending     what they send
    call        one call
    incoming    its messages, while they arrive
    answers     finds what answers a call
    codes       status codes
    exchange    the requests that calls make
    inference   the calls that predict
    questions   the calls about models, answered by the REST half
    health      the health service of gRPC
    reflection  the reflection service of gRPC
"""
