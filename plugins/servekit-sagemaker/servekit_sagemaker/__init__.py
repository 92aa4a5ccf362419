# SPDX-License-Identifier: Apache-2.0
"""Models of servekit in containers of Amazon SageMaker."""
