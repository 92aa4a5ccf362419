# SPDX-License-Identifier: Apache-2.0
"""``mms.utils.mxnet.image`` with NumPy arrays in place of those of MXNet. Imports Pillow."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Any, Final

import numpy as np
from PIL import Image

from servekit import InputError
from servekit.types import MediaRefused
from servekit.types.images import read_image

__all__ = [
    "as_array",
    "color_normalize",
    "fixed_crop",
    "read",
    "resize",
    "transform_shape",
    "write",
]

Pixels = np.ndarray[Any, Any]  #: [height, width, channels]

#: the interpolations of MXNet, by number
FILTERS: Final = {
    0: Image.Resampling.NEAREST,
    1: Image.Resampling.BILINEAR,
    2: Image.Resampling.BOX,  # by the area of pixels
    3: Image.Resampling.BICUBIC,
    4: Image.Resampling.LANCZOS,
}


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Return *value* as an array; float32 if it is a list, as MXNet makes one."""
    if hasattr(value, "asnumpy"):
        value = value.asnumpy()
    return value if isinstance(value, np.ndarray) else np.asarray(value, "float32")


def read(buf: Any, flag: int = 1, to_rgb: bool = True, out: Any = None) -> Pixels:  # noqa: ARG001 - as in MMS
    """Return the picture in *buf* as uint8 ``[height, width, 3]``; of one channel if *flag* is 0.

    :param to_rgb: otherwise the channels are blue, green, red.
    :raises InputError: it is not a picture.
    """
    try:
        picture = read_image(bytes(buf))
    except MediaRefused as error:
        raise InputError(str(error)) from None
    pixels = np.array(picture.convert("RGB" if flag else "L"))
    if pixels.ndim == 2:
        return pixels[:, :, None]
    return pixels if to_rgb else pixels[:, :, ::-1]


def write(img_arr: Any, flag: int = 1, format: str = "jpeg", dim_order: str = "CHW") -> str:  # noqa: A002 - as in MMS
    """Return the pixels of *img_arr* as a picture in base64.

    :param flag: 1 for colours, 0 for one channel.
    :param dim_order: ``CHW`` or ``HWC``.
    """
    assert dim_order in ("CHW", "HWC"), "dim_order must be 'CHW' or 'HWC'."
    pixels = as_array(img_arr)
    pixels = pixels.transpose(1, 2, 0) if dim_order == "CHW" else pixels
    pixels = pixels if flag else pixels.reshape(pixels.shape[:2])
    output = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.astype("uint8"))).save(output, format=format)
    return b64encode(output.getvalue()).decode()


def resize(src: Any, new_width: int, new_height: int, interp: int = 2) -> Pixels:
    """Return the picture *src*, uint8, in another size.

    :param interp: the number of an interpolation of MXNet; 2 averages areas.
    """
    pixels = as_array(src)
    flat = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    picture = Image.fromarray(np.ascontiguousarray(flat.astype("uint8")))
    resized = np.array(picture.resize((new_width, new_height), FILTERS.get(interp)))
    return resized.reshape(new_height, new_width, pixels.shape[2])


def fixed_crop(
    src: Any,
    x0: int,
    y0: int,
    w: int,
    h: int,
    size: tuple[int, int] | None = None,
    interp: int = 2,
) -> Pixels:
    """Return the part of *src* that begins at (*x0*, *y0*), resized to *size* if it is given.

    :param size: width and height.
    """
    part = as_array(src)[y0 : y0 + h, x0 : x0 + w]
    return part if size is None or (w, h) == tuple(size) else resize(part, *size, interp)


def color_normalize(src: Any, mean: Any, std: Any = None) -> Pixels:
    """Return *src* as float32, less *mean*, divided by *std*."""
    pixels: Pixels = as_array(src).astype("float32") - as_array(mean)
    return pixels if std is None else np.divide(pixels, as_array(std))


def transform_shape(img_arr: Any, dim_order: str = "NCHW") -> np.ndarray[Any, Any]:
    """Return *img_arr*, which is ``HWC``, with a batch axis, as ``NCHW`` or ``NHWC``."""
    assert dim_order in ("NCHW", "NHWC"), "dim_order must be 'NCHW' or 'NHWC'."
    pixels = as_array(img_arr)
    ordered = pixels.transpose(2, 0, 1) if dim_order == "NCHW" else pixels
    return np.expand_dims(ordered, 0)
