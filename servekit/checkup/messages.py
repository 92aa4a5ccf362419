# SPDX-License-Identifier: Apache-2.0
"""The messages between ``servekit check`` and the worker that it starts to try a model."""

from msgspec import Struct
from servekit_archiver.manifest import Example

from servekit.ipc.control import BootFailed, Launch
from servekit.ipc.table import Interface

__all__ = [
    "BatchRun",
    "Checked",
    "Checkup",
    "Diagnosis",
    "ExampleRun",
    "ServiceLoaded",
    "StepStarted",
    "Tried",
]


class Checkup(Struct, array_like=True, tag=30):
    """To the worker, once: what to load and what to try."""

    launch: Launch
    batch_sizes: list[int]
    #: examples of the pipeline that begins here: inputs for a stage without examples
    examples: list[Example] = []
    is_fed: bool = False  #: its inputs are outputs of other stages


class StepStarted(Struct, array_like=True, tag=31):
    """A step begins, and may take as long as the model's limits allow."""

    text: str


class ServiceLoaded(Struct, array_like=True, tag=32):
    """The service is loaded, and nothing has been predicted yet."""

    interface: Interface
    service: str  #: ``module.Class``
    load_s: float
    resident_bytes: int  #: RSS of the process
    proportional_bytes: int  #: PSS: shared pages count in parts


class ExampleRun(Struct, array_like=True, tag=33):
    """One example, predicted alone."""

    number: int  #: from 1
    duration_s: float  #: from the body to the answer's bytes
    problem: str = ""


class BatchRun(Struct, array_like=True, tag=34):
    """One size of batch, predicted several times."""

    size: int
    duration_s: float  #: the median of the runs after the first
    problem: str = ""


class Tried(Struct, array_like=True, tag=36):
    """A method that was called with an input made of its types, or was not."""

    target: str  #: an endpoint; "" is ``predict``
    problem: str = ""
    unchecked: str = ""  #: why it was not called


class Checked(Struct, array_like=True, tag=35):
    """The end; the service is closed."""

    peak_bytes: int  #: the highest RSS that the process had


Diagnosis = StepStarted | ServiceLoaded | ExampleRun | BatchRun | Tried | Checked | BootFailed
