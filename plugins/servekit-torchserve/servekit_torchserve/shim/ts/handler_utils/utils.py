# SPDX-License-Identifier: Apache-2.0
"""Parts of responses that are sent before the handler returns."""

from servekit_torchserve.parts import send_intermediate_predict_response

__all__ = ["send_intermediate_predict_response"]
