# SPDX-License-Identifier: Apache-2.0
"""Looks at its context, and answers in its own way."""

from servekit import Response, Service


class Headers(Service):
    """Answers the headers that it sees."""

    request_headers = ("x-user",)
    request_query = ("lang",)

    def load(self, context):
        self.context = context

    def predict(self, batch):
        requests = self.context.requests
        seen = [{**each.headers, **each.query} for each in requests]
        return [Response(each, 202, {"X-Seen": "yes"}) for each in seen]


class Measured(Service):
    """Counts the words that it gets, by their first letter."""

    def load(self, context):
        self.words = context.metrics.counter("words", "Words seen", labels=["letter"])
        self.sizes = context.metrics.histogram("letters", "Letters per word", buckets=[2, 4])
        self.longest = context.metrics.gauge("longest", "Letters of the last word")

    def predict(self, batch):
        for word in batch:
            self.words.inc(letter=word[0])
            self.sizes.observe(len(word))
            self.longest.set(len(word))
        return batch


class Talkative(Service):
    """Logs what it gets."""

    def load(self, context):
        self.log = context.logger
        self.log.info("loaded %s", context.model)

    def predict(self, batch):
        self.log.debug("not shown")
        self.log.warning("got %d", len(batch), extra={"event": "forged", "size": len(batch)})
        try:
            {}["lost"]
        except KeyError:
            self.log.exception("failed")
        return batch
