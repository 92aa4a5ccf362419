# SPDX-License-Identifier: Apache-2.0
"""The ``[options]`` of a model whose service is ``torchserve``."""

from typing import Literal

import msgspec

__all__ = ["TorchServeOptions"]


class TorchServeOptions(msgspec.Struct):
    """Every key with its default."""

    #: the wrapping of requests and responses; TorchServe's ``service_envelope``
    envelope: Literal["", "body", "json", "kserve", "kservev2"] = ""
    #: in place of the handler that the archive names
    handler: str = ""
    #: JSON is parsed and text is decoded; TorchServe's ``decode_input_request``
    decode_input: bool = True
    #: TorchServe's key of this name, which handlers read
    limit_max_image_pixels: bool = True
    #: the requests of a batch that fails are tried again, each alone
    isolate: bool = True
