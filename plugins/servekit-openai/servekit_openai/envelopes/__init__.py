# SPDX-License-Identifier: Apache-2.0
"""The worker half: bodies of OpenAI's clients to inputs of services, and their outputs back."""
