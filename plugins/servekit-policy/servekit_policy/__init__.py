# SPDX-License-Identifier: Apache-2.0
"""Rules for the archives that a server may serve."""
