# SPDX-License-Identifier: Apache-2.0
"""Arguments, exit statuses, the reference page."""
