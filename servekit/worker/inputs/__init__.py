# SPDX-License-Identifier: Apache-2.0
"""From decoded bodies to the inputs that a service declares."""
