# SPDX-License-Identifier: Apache-2.0
"""Pictures, sound and files among the outputs of a service."""
