# SPDX-License-Identifier: Apache-2.0
"""The log, the crash reports, and the events for plugins."""
