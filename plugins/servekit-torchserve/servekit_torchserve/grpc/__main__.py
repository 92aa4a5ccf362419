# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit_torchserve.grpc``: started by the server, answers gRPC."""

import sys

from servekit_torchserve.grpc.server import serve
from servekit_torchserve.process_options import process_parser

__all__ = ["main"]


def main() -> None:
    """Answer until SIGTERM."""
    parser = process_parser("servekit_torchserve.grpc")
    parser.add_argument("--inference", default="", help="address: HOST:PORT")
    parser.add_argument("--max-message", type=int, required=True)
    try:
        serve(parser.parse_args())
    except (ValueError, OSError) as error:
        print(f"cannot listen: {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
