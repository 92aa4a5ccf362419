# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit_onnx GRAPH.onnx DIRECTORY``: write the graph with packed weights."""

import argparse
import sys
from pathlib import Path

from servekit_onnx.weights import save_packed


def main() -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m servekit_onnx",
        description="write a graph with its weights packed, so that replicas share them",
    )
    parser.add_argument("graph", type=Path, help="a .onnx file")
    parser.add_argument("directory", type=Path, help="where the graph and its data go")
    arguments = parser.parse_args()
    if arguments.graph.resolve().parent == arguments.directory.resolve():
        parser.error(f"{arguments.directory}: holds the graph itself; name another directory")
    try:
        print(save_packed(arguments.graph, arguments.directory))  # the command's answer
    except Exception as error:  # noqa: BLE001 - onnxruntime has no base class
        print(f"python -m servekit_onnx: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
