# SPDX-License-Identifier: Apache-2.0
"""Twenty updates of a model under load, every third one broken, in servekit and in Ray Serve."""
