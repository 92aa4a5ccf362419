# SPDX-License-Identifier: Apache-2.0
"""Commands that ask a running server: how they find it, ask it, and follow what it does."""
