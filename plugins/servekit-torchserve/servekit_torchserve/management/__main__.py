# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit_torchserve.management``: started by the server, serves both addresses."""

from gevent import monkey

monkey.patch_all()

import sys  # noqa: E402 - the sockets below are gevent's

from servekit_torchserve.management.server import serve  # noqa: E402
from servekit_torchserve.process_options import process_parser  # noqa: E402

__all__ = ["main"]


def main() -> None:
    """Serve until SIGTERM."""
    parser = process_parser("servekit_torchserve.management")
    parser.add_argument("--metrics", default="", help="address: HOST:PORT")
    try:
        serve(parser.parse_args())
    except (ValueError, OSError) as error:
        print(f"cannot listen: {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
