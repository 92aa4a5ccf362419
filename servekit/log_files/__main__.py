# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.log_files``: writes log files. Started by the supervisor."""

import argparse
import signal
from functools import partial
from pathlib import Path

from servekit.log_files.rotation import RotatingFile
from servekit.log_files.writer import LogFileWriter

__all__ = ["main"]


def main() -> None:
    """Write until the supervisor closes the pipe, even if it is killed."""
    parser = argparse.ArgumentParser(prog="python -m servekit.log_files")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--pipe", type=int, required=True, help="descriptor to read from")
    parser.add_argument("--size", type=int, required=True, help="bytes of a file")
    parser.add_argument("--keep", type=int, required=True, help="number of complete files")
    parsed = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the last lines come after it
    open_file = partial(RotatingFile, parsed.directory, size_bytes=parsed.size, keep=parsed.keep)
    LogFileWriter(open_file).run(parsed.pipe)


if __name__ == "__main__":
    main()
