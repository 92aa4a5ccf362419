# SPDX-License-Identifier: Apache-2.0
"""What both versions of HTTP share: fields, targets, TLS, writing, uploads."""
