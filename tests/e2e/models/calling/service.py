# SPDX-License-Identifier: Apache-2.0
"""Asks another model, in its service and in a stage."""

import asyncio

from servekit import InputError, Service
from servekit.errors import CallError


class Calling(Service):
    request_headers = ("X-User",)

    def load(self, context):
        self.context = context

    def predict(self, batch):
        return [self.ask(*each) for each in zip(batch, self.context.requests, strict=True)]

    def ask(self, x, request):
        if "values" in x:
            return asyncio.run(self.ask_all(x["values"], request))
        try:
            return self.context.call(x.get("model", "called"), x["value"], request)
        except CallError as error:
            if x.get("catch"):
                return {"status": error.called_status, "detail": error.detail}
            if error.called_status == 422:
                return InputError(error.detail)
            raise

    async def ask_all(self, values, request):
        calls = [self.context.call_async("called", value, request) for value in values]
        return await asyncio.gather(*calls)

    def stand_in(self, model, value):
        return {"value": value, "by": "stand-in"}


class After(Service):
    """Asks again if it is told to."""

    def load(self, context):
        self.context = context

    def predict(self, batch):
        return [self.ask(x) for x in batch]

    def ask(self, x):
        is_again = isinstance(x, dict) and x.get("value") == "again"
        return [x, self.context.call("called", "second")] if is_again else x
