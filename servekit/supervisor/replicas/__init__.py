# SPDX-License-Identifier: Apache-2.0
"""The life of one replica and its worker."""
