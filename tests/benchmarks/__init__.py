# SPDX-License-Identifier: Apache-2.0
"""The benchmark: servekit beside its peers, in one run, on one machine. Read README.md first."""
