# SPDX-License-Identifier: Apache-2.0
"""What happens to a request before it is routed, and to a response before it is sent."""
