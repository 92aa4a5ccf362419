# SPDX-License-Identifier: Apache-2.0
"""Services that stream or step."""
