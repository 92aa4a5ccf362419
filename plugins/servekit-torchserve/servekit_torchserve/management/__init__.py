# SPDX-License-Identifier: Apache-2.0
"""The management API of TorchServe and its page of metrics, at addresses beside the server's.

A separate process (``python -m servekit_torchserve.management``) translates each request into one
or more of servekit's own management API, at the socket in the run directory:

    access          who may manage: the server judges the token
    routes          in front-ends: the path where it does
    upstream        requests to the server
    errors          errors as TorchServe's clients read them
    parameters      parameters of the query, or of a JSON body
    archives        where an archive is, and what it says its name and version are
    model_settings  what a registration says of a model
    description     one version, as TorchServe describes it
    operations      all calls, for HTTP and gRPC alike
    openapi         the description of the API
    web             the pages
    server          the process
"""
