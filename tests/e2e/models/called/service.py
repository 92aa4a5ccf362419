# SPDX-License-Identifier: Apache-2.0
"""Tells what it was asked, and what it inherited from the request of its caller."""

import time

from servekit import InputError, Service


class Called(Service):
    request_headers = ("X-User",)

    def load(self, context):
        self.context = context

    def predict(self, batch):
        requests = self.context.requests
        return [self.tell(*each, len(batch)) for each in zip(batch, requests, strict=True)]

    def tell(self, value, request, size):
        if value == "refuse":
            return InputError("value: is refused")
        if value == "fail":
            raise ZeroDivisionError
        until = time.monotonic() + 30 if value == "hang" else 0
        while time.monotonic() < until and not request.is_cancelled:
            time.sleep(0.01)
        return {
            "value": value,
            "batch": size,
            "id": request.request_id,
            "trace": request.headers.get("traceparent"),
            "user": request.headers.get("x-user"),
            "left_s": request.remaining_s,
            "was_cancelled": request.is_cancelled,
        }
