# SPDX-License-Identifier: Apache-2.0
"""Lists the content of the cache, and removes it if no server uses it."""
