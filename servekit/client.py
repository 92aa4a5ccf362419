# SPDX-License-Identifier: Apache-2.0
"""The names of ``servekit_client``, for who has both: ``pip install 'servekit[client]'``.

A program that only sends requests needs that distribution alone.
"""

try:
    from servekit_client import *  # noqa: F403 - all its names, and no others
    from servekit_client import __all__ as __all__
except ModuleNotFoundError as error:
    if error.name != "servekit_client":
        raise
    reason = "servekit.client needs the distribution servekit-client: pip install servekit-client"
    raise ImportError(reason) from None
