# SPDX-License-Identifier: Apache-2.0
"""Where older handlers look for ``send_intermediate_predict_response``."""

from servekit_torchserve.parts import send_intermediate_predict_response

__all__ = ["send_intermediate_predict_response"]
