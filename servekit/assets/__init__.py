# SPDX-License-Identifier: Apache-2.0
"""Assets: files outside the archive, fetched or made once, then found in the cache.

Read ``fetching.py`` for the way of one file, ``making.py`` for what a service makes. Only
``servekit assets`` and, if the operator says ``--fetch-assets``, the prepare child of
``servekit start`` fetch or make anything: no request ever does. ``http.py`` is the one module
that opens a connection.
"""
