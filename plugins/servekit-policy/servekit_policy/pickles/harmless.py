# SPDX-License-Identifier: Apache-2.0
"""The names that a pickle may import to hold numbers, strings, arrays and tensors.

It is a list of what is harmless, since a list of what is dangerous is never complete: every
installed package adds to it.
"""

from typing import Final

__all__ = ["HARMLESS"]

BUILTINS: Final = (
    *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list"),
    *("object", "range", "set", "slice", "str", "tuple"),
)
MODULES: Final = {
    "builtins": BUILTINS,
    "__builtin__": BUILTINS,
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
    "copyreg": ("_reconstructor",),
    "copy_reg": ("_reconstructor",),
    "_codecs": ("encode",),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "uuid": ("UUID",),
    "numpy": ("dtype", "ndarray"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy.core.numeric": ("_frombuffer",),
    "numpy._core.numeric": ("_frombuffer",),
    "torch": (
        *("BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "DoubleStorage"),
        *("FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage"),
        *("Size", "Tensor", "device"),
        *("bfloat16", "bool", "float16", "float32", "float64", "int16", "int32", "int64", "int8"),
        *("uint8", "qint8", "quint8", "qint32"),
    ),
    "torch.nn.parameter": ("Parameter",),
    "torch.storage": ("TypedStorage", "UntypedStorage"),
    "torch.serialization": ("_get_layout",),
    "torch._utils": (
        *("_rebuild_parameter", "_rebuild_qtensor", "_rebuild_tensor", "_rebuild_tensor_v2"),
        "_rebuild_sparse_tensor",
    ),
}
HARMLESS: Final = frozenset(
    f"{module}.{name}" for module, names in MODULES.items() for name in names
)
