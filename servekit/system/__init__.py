# SPDX-License-Identifier: Apache-2.0
"""Features of the kernel: parent death signals, cgroups, accounts."""
