# SPDX-License-Identifier: Apache-2.0
"""The arguments of the processes that answer at TorchServe's other addresses."""

import argparse
from pathlib import Path
from typing import Final

__all__ = ["LIMITS", "process_parser"]

#: how long clients are waited for, by settings of the server
LIMITS: Final = ("header-timeout", "body-timeout", "send-timeout", "keep-alive")


def process_parser(module: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments of both processes, for ``python -m`` *module*."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--management", default="", help="address: HOST:PORT")
    parser.add_argument("--run-directory", type=Path, required=True)
    parser.add_argument("--clients", type=Path, required=True, help="socket of the front-ends")
    parser.add_argument("--grace", type=float, required=True)
    parser.add_argument("--model-store", type=Path)
    parser.add_argument("--model-api", action="store_true")
    parser.add_argument("--no-token", action="store_true")
    parser.add_argument("--tls-certificate", default="")
    parser.add_argument("--tls-key", default="")
    for name in LIMITS:
        parser.add_argument(f"--{name}", type=float, required=True, help="seconds")
    return parser
