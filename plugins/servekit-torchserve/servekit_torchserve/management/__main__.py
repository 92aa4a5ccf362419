# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit_torchserve.management``: started by the server, serves both addresses."""

from gevent import monkey

monkey.patch_all()

import argparse  # noqa: E402 - the sockets below are gevent's
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from servekit_torchserve.management.server import serve  # noqa: E402

__all__ = ["main"]


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m servekit_torchserve.management")
    parser.add_argument("--management", default="", help="address: HOST:PORT")
    parser.add_argument("--metrics", default="", help="address: HOST:PORT")
    parser.add_argument("--run-directory", type=Path, required=True)
    parser.add_argument("--clients", type=Path, required=True, help="socket of the front-ends")
    parser.add_argument("--grace", type=float, required=True)
    parser.add_argument("--model-store", type=Path)
    parser.add_argument("--model-api", action="store_true")
    parser.add_argument("--no-token", action="store_true")
    parser.add_argument("--tls-certificate", default="")
    parser.add_argument("--tls-key", default="")
    try:
        serve(parser.parse_args())
    except (ValueError, OSError) as error:
        print(f"cannot listen: {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
