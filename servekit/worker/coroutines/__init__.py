# SPDX-License-Identifier: Apache-2.0
"""Services whose methods are coroutines: one event loop, and a task for each request."""
