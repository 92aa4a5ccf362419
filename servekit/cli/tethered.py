# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.cli.tethered PARENT COMMAND ...``: a ``servekit`` that ends with PARENT.

For servers that a Python program starts: one that is killed could not stop them.
"""

import sys

from servekit.cli import main
from servekit.system.parent_death import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
