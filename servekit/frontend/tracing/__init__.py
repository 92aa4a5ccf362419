# SPDX-License-Identifier: Apache-2.0
"""Where the time of a request went, for the plugins that implement ``request_traced``."""
