# SPDX-License-Identifier: Apache-2.0
"""Models for the tests, as directories. The first three are those that Triton's examples expect."""

from pathlib import Path

PAIR = """
[signature]
inputs = [
    {{ name = "INPUT0", dtype = "{dtype}", shape = [16] }},
    {{ name = "INPUT1", dtype = "{dtype}", shape = [16] }},
]
outputs = [
    {{ name = "OUTPUT0", dtype = "{dtype}", shape = [16] }},
    {{ name = "OUTPUT1", dtype = "{dtype}", shape = [16] }},
]
"""
SIMPLE = """
from servekit import Service

class Simple(Service):
    def predict(self, batch):
        a, b = batch["INPUT0"], batch["INPUT1"]
        return {"OUTPUT0": a + b, "OUTPUT1": a - b}
"""
SIMPLE_STRING = """
from servekit import Service

class SimpleString(Service):
    def predict(self, batch):
        a, b = batch["INPUT0"].astype(int), batch["INPUT1"].astype(int)
        return {"OUTPUT0": (a + b).astype(str), "OUTPUT1": (a - b).astype(str)}
"""
IDENTITY = """
from servekit import Service

class Identity(Service):
    def predict(self, batch):
        return {"OUTPUT0": batch["INPUT0"]}
"""
SUM = """
from servekit import InputError, Service

class Sum(Service):
    def predict(self, batch):
        if (batch["x"] == -1).any():
            raise ValueError("as asked")
        sums = batch["x"].sum(axis=1)
        return [InputError("too small") if each < -1000 else each for each in sums]
"""
TOTAL = """
from servekit import Service

class Total(Service):
    def predict(self, batch):
        return {"y": batch["x"].sum(axis=1, keepdims=True, dtype="float64")}
"""
ANYTHING = """
from servekit import Service

class Anything(Service):
    def predict(self, batch):
        return [{"got": value} for value in batch]
"""
SHOUT = """
from servekit import Service

class Shout(Service):
    def predict(self, batch: list[str]) -> list[str]:
        return [text.upper() for text in batch]
"""
TWICE = """
from servekit import Service

class Twice(Service):
    def predict(self, batch):
        return {"y": batch["x"] * 2}
"""
COMPLETE = """
from servekit import Service

class Complete(Service):
    def predict(self, batch):
        sizes = batch["max_tokens"].astype(str).astype(object)
        return {"text_output": batch["text_input"] + "!" + sizes}
"""
COMPLETE_SIGNATURE = """
[signature]
inputs = [
    { name = "text_input", dtype = "str", shape = [1] },
    { name = "max_tokens", dtype = "int32", shape = [1] },
]
outputs = [{ name = "text_output", dtype = "str", shape = [1] }]
"""
STORY = """
from collections.abc import Iterator
from servekit import InputError, Service

class Story(Service):
    def stream(self, text: str) -> Iterator[str]:
        for word in text.split():
            if word == "stop":
                raise InputError("a story must not stop")
            yield word.upper()
"""
SLOW = """
import time
from servekit import Service

class Slow(Service):
    def predict(self, batch):
        time.sleep(0.3)
        return batch
"""
#: those that messages of gRPC can hold in a field of their own
IN_FIELDS = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float32", "float64", "str"),
)
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "str"),
)
EVERYTHING = """
from servekit import Service

class Everything(Service):
    def predict(self, batch):
        return {f"{name}_out": array for name, array in batch.items()}
"""


def every_dtype(dtypes=DTYPES):
    """Return the signature of a model with an input and an output of each of *dtypes*."""
    inputs = [f'{{ name = "{each}", dtype = "{each}", shape = [2] }},' for each in dtypes]
    outputs = [f'{{ name = "{each}_out", dtype = "{each}", shape = [2] }},' for each in dtypes]
    return f"[signature]\ninputs = [{''.join(inputs)}]\noutputs = [{''.join(outputs)}]\n"


def one(name_in, dtype_in, shape_in, name_out, dtype_out, shape_out):
    """Return a signature with one input and one output."""
    return f"""
[signature]
inputs = [{{ name = "{name_in}", dtype = "{dtype_in}", shape = {shape_in} }}]
outputs = [{{ name = "{name_out}", dtype = "{dtype_out}", shape = {shape_out} }}]
"""


MODELS = {
    "simple": ("Simple", SIMPLE, PAIR.format(dtype="int32")),
    "simple_string": ("SimpleString", SIMPLE_STRING, PAIR.format(dtype="str")),
    "simple_identity": ("Identity", IDENTITY, one("INPUT0", "str", [16], "OUTPUT0", "str", [16])),
    "sum": ("Sum", SUM, one("x", "float32", [-1], "y", "float64", [])),
    "total": ("Total", TOTAL, one("x", "float32", [-1], "y", "float64", [1])),
    "everything": ("Everything", EVERYTHING, every_dtype()),
    "bfloat16": ("Everything", EVERYTHING, one("x", "bfloat16", [-1], "x_out", "bfloat16", [-1])),
    "fixed_bfloat16": (
        "Everything",
        EVERYTHING,
        one("x", "bfloat16", [2], "x_out", "bfloat16", [2]),
    ),
    "four": ("Twice", TWICE, one("x", "float32", [4], "y", "float32", [4])),
    "complete": ("Complete", COMPLETE, COMPLETE_SIGNATURE),
    "anything": ("Anything", ANYTHING, ""),
    "shout": ("Shout", SHOUT, ""),
    "story": ("Story", STORY, ""),
    "slow": ("Slow", SLOW, ""),
}


def write_models(store, names=tuple(MODELS), models=MODELS):
    """Write the directories of those of *models* with *names* into *store*, and return it."""
    for name in names:
        kind, service, signature = models[name]
        directory = Path(store) / name
        directory.mkdir(parents=True)
        directory.joinpath("service.py").write_text(service)
        toml = f'name = "{name}"\nversion = "1"\nservice = "service:{kind}"\n'
        toml += "[batching]\nmax_batch_size = 8\n[worker]\nreplicas = 1\n" + signature
        directory.joinpath("model.toml").write_text(toml)
    if "simple" in names:
        Path(store, "simple", "labels.txt").write_text("zero\none\ntwo\n")
    return Path(store)
