# SPDX-License-Identifier: Apache-2.0
"""Base classes of services of MMS 0.x."""
