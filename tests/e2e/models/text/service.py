"""Texts in, texts out; or words, one by one."""

import time

from servekit import InputError, Service, endpoint


class Upper(Service):
    """Makes texts upper case."""

    def load(self, context):
        self.context = context
        self.sizes = []

    def predict(self, batch):
        self.sizes.append(len(batch))
        if any(text.startswith("sleep") for text in batch):
            time.sleep(0.5)
        if "die" in batch:
            import os

            os.kill(os.getpid(), 9)
        return [InputError("no text") if text == "refuse" else text.upper() for text in batch]

    @endpoint()
    def longest(self, batch):
        return [max(self.sizes)] * len(batch)


class Reverse(Service):
    """Turns texts around; a second stage."""

    def load(self, context):
        self.context = context

    def predict(self, batch):
        if any(text == "END" for text in batch):
            raise ValueError("as asked")
        return [text[::-1] for text in batch]


class Words(Service):
    """Gives the words of a text one by one."""

    def stream(self, text):
        for word in text.split():
            if word == "fail":
                raise ValueError("as asked")
            if word == "die":
                import os

                os.kill(os.getpid(), 9)
            if word in ("sleep", "pause"):
                time.sleep(0.3 if word == "sleep" else 4)
            yield word
