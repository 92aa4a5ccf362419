# SPDX-License-Identifier: Apache-2.0
"""What the kernel offers: parent death signals, cgroups."""
