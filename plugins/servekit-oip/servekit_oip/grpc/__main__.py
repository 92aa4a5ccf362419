# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit_oip.grpc``: started by the server, answers gRPC."""

import argparse
import asyncio
import sys

from servekit_oip.grpc.server import serve

__all__ = ["main"]


def main() -> None:
    """Answer until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m servekit_oip.grpc")
    parser.add_argument("--address", required=True, help="where to listen: HOST:PORT")
    parser.add_argument("--socket", required=True, help="where the front-ends listen")
    parser.add_argument("--grace", type=float, required=True)
    parser.add_argument("--keep-alive", type=float, required=True)
    parser.add_argument("--max-message", type=int, required=True)
    parser.add_argument("--max-header", type=int, required=True)
    parser.add_argument("--header-timeout", type=float, required=True)
    parser.add_argument("--send-timeout", type=float, required=True)
    parser.add_argument("--shares-port", action="store_true", help="other processes listen there")
    parser.add_argument("--tls-certificate", default="")
    parser.add_argument("--tls-key", default="")
    parser.add_argument("--tls-client-ca", default="")
    try:
        asyncio.run(serve(parser.parse_args()))
    except (ValueError, OSError) as error:
        print(f"cannot listen: {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
