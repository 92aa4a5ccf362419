# SPDX-License-Identifier: Apache-2.0
"""Asks a server with the clients of KServe's SDK, in an environment that has it; prints JSON.

python kserve_client.py READINESS_PATH HTTP_PORT GRPC_PORT MODEL
"""

import asyncio
import json
import sys
import time

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub

WAIT_S = 90.0
ROWS = np.array([[0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0]])


def request(model: str, *, is_binary: bool) -> InferRequest:
    """Return a request with two rows."""
    tensor = InferInput("x", list(ROWS.shape), "FP64")
    tensor.set_data_from_numpy(ROWS, binary_data=is_binary)
    parameters = {"binary_data_output": True} if is_binary else None
    return InferRequest(model, [tensor], request_id="seven", parameters=parameters)


def shown(response) -> dict:
    """Return what matters of a response."""
    (output,) = response.outputs
    values = output.as_numpy().ravel().tolist()
    return {"model": response.model_name, "id": response.id, "values": values}


async def ask_rest(url: str, model: str) -> dict:
    """Return what the REST client gets."""
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    found = {
        "live": await client.is_server_live(url),
        "ready": await client.is_server_ready(url),
        "model ready": await client.is_model_ready(url, model),
        "no model ready": await client.is_model_ready(url, "nobody"),
        "JSON": shown(await client.infer(url, request(model, is_binary=False), model_name=model)),
        "binary": shown(await client.infer(url, request(model, is_binary=True), model_name=model)),
    }
    await client.close()
    async with httpx.AsyncClient() as plain:
        found["server"] = (await plain.get(f"{url}/v2")).json()
        found["metadata"] = (await plain.get(f"{url}/v2/models/{model}")).json()
    return found


async def ask_grpc(address: str, model: str) -> dict:
    """Return what the gRPC client gets."""
    client = InferenceGRPCClient(address)
    found = {
        "live": await client.is_server_live(),
        "ready": await client.is_server_ready(),
        "model ready": await client.is_model_ready(model),
        "raw": shown(await client.infer(request(model, is_binary=True))),
        "contents": shown(await client.infer(request(model, is_binary=False))),
    }
    await client.close()
    async with grpc.aio.insecure_channel(address) as channel:
        stub = GRPCInferenceServiceStub(channel)
        described = await stub.ModelMetadata(messages.ModelMetadataRequest(name=model))
        found["inputs"] = [each.name for each in described.inputs]
        found["server"] = (await stub.ServerMetadata(messages.ServerMetadataRequest())).name
    return found


def wait_ready(url: str) -> None:
    """Probe until it succeeds, as a kubelet does."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            status = httpx.get(url).status_code
        except httpx.TransportError:
            status = 0
        if status == 200:
            return
        assert time.monotonic() < deadline, f"{url} answers {status}"
        time.sleep(0.1)


def main() -> None:
    """Ask over both protocols."""
    path, http_port, grpc_port, model = sys.argv[1:]
    url = f"http://127.0.0.1:{http_port}"
    wait_ready(url + path)
    found = {
        "REST": asyncio.run(ask_rest(url, model)),
        "gRPC": asyncio.run(ask_grpc(f"127.0.0.1:{grpc_port}", model)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
