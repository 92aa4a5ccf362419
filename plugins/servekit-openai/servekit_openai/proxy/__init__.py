# SPDX-License-Identifier: Apache-2.0
"""Engines that run elsewhere and speak the same API, behind servekit."""
