# SPDX-License-Identifier: Apache-2.0
"""Files that a model needs and its archive does not hold: fetched once, then found in the cache.

Read ``fetching.py`` for the way of one file. Only ``servekit assets`` and, if the operator
says ``--fetch-assets``, the prepare child of ``servekit start`` fetch anything: no request
ever does. ``http.py`` is the one module that opens a connection.
"""
