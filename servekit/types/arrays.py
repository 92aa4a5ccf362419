# SPDX-License-Identifier: Apache-2.0
"""``Array``: dtype and shape of an annotated ``numpy.ndarray``; JSON Schemas of arrays."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import msgspec
    import numpy as np

__all__ = [
    "ARRAY",
    "DTYPES",
    "EXTENDED",
    "Array",
    "array_schema",
    "extended_dtype",
    "with_batch_axis",
]

ARRAY: Final = "servekit.array"  #: key of ``Meta.extra``: the declaration, as in ``[signature]``
#: as JSON has them: the shortest decimal of the largest float32 is a little more than its value
LARGEST: Final = {"float16": 65504.0, "bfloat16": 3.3895314e38, "float32": 3.4028235e38}
INTEGERS: Final = {
    f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)
}
#: element types that a signature may declare
DTYPES: Final = ("bool", "str", *INTEGERS, *LARGEST, "float64")
#: element types that ml_dtypes adds to NumPy; signatures have the first one only
EXTENDED: Final = (
    *("bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


def Array(dtype: str, shape: Sequence[int]) -> "msgspec.Meta":  # noqa: N802 - stands among types
    """Declare dtype and shape: ``Annotated[numpy.ndarray, Array("float32", (-1, 3))]``.

    :param dtype: as in ``[signature]``: ``bool``, ``int8`` to ``uint64``, ``float16`` to
        ``float64``, ``bfloat16`` (if ml_dtypes is installed), or ``str`` (an object array of
        strings).
    :param shape: -1 is any size, ``()`` a single element.
    """
    import msgspec  # not needed to import this module

    axes = [int(size) for size in shape]
    if dtype not in DTYPES:
        raise ValueError(f"Array: unknown dtype {dtype!r}; one of {', '.join(DTYPES)}")
    if any(size < -1 for size in axes):
        raise ValueError(f"Array: shape {axes}: an axis is below -1")
    declared = {"name": "", "dtype": dtype, "shape": axes}
    described = array_schema(dtype, axes) | {"description": f"{dtype} array of shape {axes}"}
    return msgspec.Meta(extra_json_schema=described, extra={ARRAY: declared})


def extended_dtype(name: str) -> "np.dtype[Any]":
    """Return the dtype of one of ``EXTENDED``.

    :raises ImportError: ml_dtypes is not installed, or too old.
    """
    import numpy as np

    try:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        raise ImportError(f"{name} needs ml_dtypes, pip install ml_dtypes") from None
    return found


def array_schema(dtype: str, shape: Sequence[int]) -> dict[str, Any]:
    """Return the schema of lists in lists; of one element if there is no axis."""
    schema = _element(dtype)
    for size in reversed(shape):
        bounds = {} if size == -1 else {"minItems": size, "maxItems": size}
        schema = {"type": "array", "items": schema, **bounds}
    return schema


def with_batch_axis(signature: Mapping[str, Any]) -> dict[str, Any]:
    """Return the *signature* of requests with rows: each shape begins with an axis of any size."""
    return {
        side: [{**each, "shape": [-1, *each["shape"]]} for each in entries]
        for side, entries in signature.items()
    }


def _element(dtype: str) -> dict[str, Any]:
    if dtype in ("bool", "str"):
        return {"type": "boolean" if dtype == "bool" else "string"}
    return _number(dtype) | {"examples": [0]}  # else a page shows the lowest one


def _number(dtype: str) -> dict[str, Any]:
    if dtype in INTEGERS:
        sign, bits = INTEGERS[dtype]
        low, high = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return {"type": "integer", "minimum": low, "maximum": high}
    if dtype in LARGEST:
        return {"type": "number", "minimum": -LARGEST[dtype], "maximum": LARGEST[dtype]}
    return {"type": "number"}
