# SPDX-License-Identifier: Apache-2.0
"""API keys with rate limits for predictions."""
