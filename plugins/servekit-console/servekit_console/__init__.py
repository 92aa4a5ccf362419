# SPDX-License-Identifier: Apache-2.0
"""``/console/``: the state of a server in the browser."""
