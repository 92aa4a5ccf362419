# SPDX-License-Identifier: Apache-2.0
"""Jobs: predictions whose results are fetched later (``Prefer: respond-async``, RFC 7240).

Everything here runs in the front-ends. A job is an exchange that continues without its client. Its
result is a file in the run directory, where every front-end finds it.
"""
