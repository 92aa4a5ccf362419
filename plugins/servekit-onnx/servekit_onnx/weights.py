# SPDX-License-Identifier: Apache-2.0
"""Weights in external data: mapped and shared by replicas, or packed and fast, or both.

onnxruntime maps external data from its file. Then it *packs* the weights of matrix products
into the layout of the machine's instructions: a copy in the memory of each process, which
makes those products up to twice as fast. ``save_packed`` writes the packed layout into the
external data, where it is mapped too.
"""

import mmap
from pathlib import Path

import onnxruntime

__all__ = ["save_packed", "sharing_settings"]

# as they stand in the protobuf: the key of a tensor's place in a file, and of its packed layout
EXTERNAL = b"\n\x08location\x12"
PACKED = b"prepacked_"
SMALLEST = 1024  #: bytes of a weight that goes to the external data


def sharing_settings(path: Path) -> dict[str, str]:
    """Return what to set so that sessions on the graph in *path* share its weights.

    Nothing where there is nothing to share, or where the file holds the packed layout.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as graph:
        if graph.find(EXTERNAL) < 0 or graph.find(PACKED) >= 0:
            return {}
    return {"session.disable_prepacking": "1"}


def save_packed(path: Path, directory: Path) -> Path:
    """Write the graph in *path* into *directory*, its weights in external data, packed.

    Sessions on a processor that packs otherwise pack for themselves, as always.

    :return: the new graph; its external data lies beside it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    packed = directory / path.name
    settings = onnxruntime.SessionOptions()
    # a higher level rewrites the graph itself for this processor
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    settings.optimized_model_filepath = str(packed)
    for key, value in {
        "session.optimized_model_external_initializers_file_name": f"{path.stem}.data",
        "session.optimized_model_external_initializers_min_size_in_bytes": str(SMALLEST),
        "session.save_external_prepacked_constant_initializers": "1",
    }.items():
        settings.add_session_config_entry(key, value)
    onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return packed
