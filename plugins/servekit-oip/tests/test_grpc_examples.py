# SPDX-License-Identifier: Apache-2.0
"""The gRPC examples of Triton's client, which nobody has changed for us."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from servekit.testing import ServedModel

from .oip_models import write_models

grpc = pytest.importorskip("grpc", reason="pip install 'servekit-oip[grpc]'")
pytestmark = pytest.mark.e2e

VARIABLE = "OIP_TRITON_EXAMPLES"
EXAMPLES = os.environ.get(VARIABLE, "")
EIGHT = (
    *("simple", "simple_string", "simple_identity", "sum", "anything", "shout", "slow"),
    "everything",
)
NAMES = (
    *("simple_grpc_infer_client", "simple_grpc_aio_infer_client", "simple_grpc_async_infer_client"),
    *("simple_grpc_string_infer_client", "simple_grpc_health_metadata"),
    *("simple_grpc_custom_args_client", "simple_grpc_keepalive_client"),
    *("grpc_explicit_int_content_client", "simple_grpc_model_control"),
)


class AddToken(grpc.GenericRpcHandler):
    """Passes calls on with the token for management, which the examples cannot send."""

    def __init__(self, channel):
        self._channel = channel

    def service(self, details):
        async def pass_on(message, context):
            ask = self._channel.unary_unary(details.method)
            try:
                return await ask(message, metadata=[("authorization", "Bearer manager")])
            except grpc.RpcError as error:
                await context.abort(error.code(), error.details())

        return grpc.unary_unary_rpc_method_handler(pass_on)


class Proxy(threading.Thread):
    """Runs a server of ``AddToken`` until ``stop``."""

    def __init__(self, target):
        super().__init__()
        self._upstream, self._serves = target, threading.Event()
        self.start()
        assert self._serves.wait(30)

    def run(self):
        asyncio.run(self._serve())

    async def _serve(self):
        self._loop, self._stop_asked = asyncio.get_running_loop(), asyncio.Event()
        async with grpc.aio.insecure_channel(self._upstream) as channel:
            server = grpc.aio.server()
            server.add_generic_rpc_handlers((AddToken(channel),))
            self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            await server.start()
            self._serves.set()
            await self._stop_asked.wait()
            await server.stop(None)

    def stop(self):
        self._loop.call_soon_threadsafe(self._stop_asked.set)
        self.join(30)


@pytest.fixture(scope="module")
def address(tmp_path_factory, token_file):
    """Return where a server of eight models can be managed without a token."""
    store = write_models(tmp_path_factory.mktemp("eight") / "store", EIGHT)
    options = {"model_store": str(store), "manage_token_file": str(token_file)}
    with ServedModel(store / "simple", plugin=["oip.grpc=127.0.0.1:0"], **options) as model:
        model.wait_ready()
        shown = model.log.wait_for("output", subject="front-end")["message"]
        proxy = Proxy(shown.removeprefix("gRPC at "))
        yield proxy.address
        proxy.stop()


@pytest.mark.skipif(not EXAMPLES, reason=f"{VARIABLE}: the examples of tritonclient")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_passes(address, name):
    path = Path(EXAMPLES, f"{name}.py")
    command = [sys.executable, str(path), "-u", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
