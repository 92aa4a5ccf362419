"""Outputs as bodies, and streams in the format of another protocol."""

from collections.abc import Iterator

from msgspec import Struct

from servekit import InputError, Service


class Ask(Struct):
    text: str
    stream: bool = False


class Teller(Service):
    def stream(self, ask: Ask) -> Iterator[str | int]:
        for word in ask.text.split(" "):
            if word == "fail":
                raise InputError("far enough")
            yield int(word) if word.isdigit() else word


class Upper(Service):
    def predict(self, batch: list[Ask]) -> list[str]:
        return [ask.text.upper() or InputError("no text") for ask in batch]


class Words(Service):
    def stream(self, text: str) -> Iterator[str]:
        yield from text.split(" ")
