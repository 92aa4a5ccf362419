# SPDX-License-Identifier: Apache-2.0
"""Looks at its context, and answers in its own way."""

from servekit import Response, Service


class Headers(Service):
    """Answers the headers that it sees."""

    request_headers = ("x-user",)

    def load(self, context):
        self.context = context

    def predict(self, batch):
        requests = self.context.requests
        return [Response(dict(each.headers), 202, {"X-Seen": "yes"}) for each in requests]
