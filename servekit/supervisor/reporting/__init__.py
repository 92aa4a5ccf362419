# SPDX-License-Identifier: Apache-2.0
"""What the supervisor tells people and plugins, and the crash reports."""
