# SPDX-License-Identifier: Apache-2.0
"""The KServe V1 protocol."""
