# SPDX-License-Identifier: Apache-2.0
"""What ``servekit check`` asks of a worker, and how answers are compared."""
