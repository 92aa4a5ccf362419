# SPDX-License-Identifier: Apache-2.0
"""Gets archives from OCI registries."""
