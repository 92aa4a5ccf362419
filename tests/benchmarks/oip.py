# SPDX-License-Identifier: Apache-2.0
"""servekit with models that have signatures: by the Open Inference Protocol, and natively."""

from typing import ClassVar

from tests.benchmarks.answers import Request
from tests.benchmarks.cases import SUM, Case
from tests.benchmarks.servers import Servekit
from tests.benchmarks.triton import v2_request

MODELS = ("sum", "tensors")


class SignedServekit(Servekit):
    """The native routes of models with a signature: what the protocol costs is seen beside it."""

    key = "signed"
    title = "servekit, models with signatures"
    forms: ClassVar[tuple[str, ...]] = ("json", "msgpack", "npy", "raw")

    def refuses(self, case: Case) -> str | None:
        if case.model not in MODELS or case.form not in self.forms:
            return "not measured with a signature"
        return super().refuses(case)

    def archive(self, case: Case) -> str:
        return f"oip-{case.model}"


class StackingServekit(Servekit):
    """A service without a signature that makes the same arrays: what a signature costs is seen."""

    key = "stacking"
    title = "servekit, arrays made by the service"

    def refuses(self, case: Case) -> str | None:
        return None if case == SUM else "not measured"

    def archive(self, case: Case) -> str:
        return f"numpy-{case.model}"


class OipServekit(SignedServekit):
    """The same models by the plugin servekit-oip, with the requests that Triton gets."""

    key = "oip"
    title = "servekit, Open Inference Protocol"
    forms = ("json", "raw")

    def path(self, case: Case) -> str:
        return f"/v2/models/{case.model}/infer"

    def request(self, case: Case, seed: int = 0) -> Request:
        return v2_request(self.path(case), case, seed)
