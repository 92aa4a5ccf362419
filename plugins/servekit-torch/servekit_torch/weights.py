# SPDX-License-Identifier: Apache-2.0
"""Weights mapped from their file: replicas that map the same file share its memory.

``torch.load(mmap=True)`` and safetensors map their files. ``torch.jit.load`` and
``torch.export.load`` copy the weights into memory; both keep them in a zip file, uncompressed, so
``map_records`` finds where, and has the tensors use the mapped file in place of their copies.
"""

import ctypes
import os
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import torch

from servekit.errors import BootError

__all__ = ["map_records", "one_line", "read_state", "return_memory"]

SMALLEST = 1 << 14  #: bytes of a storage worth mapping
HEAD_BYTES = 1 << 12  #: compared first
NAME_LENGTHS = 26  #: where the header of an entry says how long its name and its extra field are
HEADER_BYTES = 30
REASON_CHARS = 300  #: characters of a message of PyTorch


def map_records(path: Path, tensors: Iterable[Any]) -> None:
    """Let *tensors* on the CPU, which were read from the zip file at *path*, use its pages.

    Tensors that share memory still do. A tensor whose bytes are not in the file keeps its copy.
    """
    offsets = _stored_records(path)
    whole = torch.UntypedStorage.from_file(os.fspath(path), False, path.stat().st_size)
    twins: dict[int, Any] = {}  # address of a storage to the part of the file, or None
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if tensor.device.type != "cpu" or storage.nbytes() < SMALLEST:
            continue
        address = storage.data_ptr()
        if address not in twins:
            twins[address] = _twin(storage, whole, offsets[storage.nbytes()])
        if (twin := twins[address]) is not None:
            place = tensor.storage_offset(), tensor.size(), tensor.stride()
            tensor.data = torch.empty(0, dtype=tensor.dtype).set_(twin, *place)


def return_memory() -> None:
    """Give the memory of the copies back to the system; glibc would keep it for later."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def _stored_records(path: Path) -> Mapping[int, list[int]]:
    """Return the size of each uncompressed entry to the offsets of the contents of that size."""
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    with ZipFile(path) as archive, path.open("rb") as file:
        for entry in archive.infolist():
            if entry.compress_type == ZIP_STORED and entry.file_size >= SMALLEST:
                file.seek(entry.header_offset + NAME_LENGTHS)
                skipped = sum(struct.unpack("<HH", file.read(4)))
                offsets[entry.file_size].append(entry.header_offset + HEADER_BYTES + skipped)
    return offsets


def _twin(storage: Any, whole: Any, offsets: Iterable[int]) -> Any:
    """Return the part of *whole* that equals *storage*; ``None`` if there is none."""
    size, own = storage.nbytes(), _bytes(storage)
    for offset in offsets:
        part = whole[offset : offset + size]
        other = _bytes(part)
        if torch.equal(own[:HEAD_BYTES], other[:HEAD_BYTES]) and torch.equal(own, other):
            return part
    return None


def _bytes(storage: Any) -> Any:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def read_state(path: Path) -> dict[str, Any]:
    """Return the tensors in a safetensors file, or in a state dict of ``torch.save``, mapped.

    :raises BootError: the file is neither, or holds more than tensors.
    """
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        state = _load_tensors(path)
    except Exception as error:  # noqa: BLE001 - unpicklers raise anything
        raise BootError(f"{path.name}: torch cannot read it ({one_line(error)})") from None
    if not isinstance(state, Mapping) or not all(map(torch.is_tensor, state.values())):
        raise BootError(f"{path.name}: is not a state dict; save module.state_dict()")
    return dict(state)


def _load_tensors(path: Path) -> Any:
    """Unpickle what can only be tensors; files as PyTorch wrote them before 1.6 are not mapped."""
    return torch.load(path, map_location="cpu", mmap=is_zipfile(path), weights_only=True)


def one_line(error: BaseException) -> str:
    """Return the message of *error* in one line, shortened."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= REASON_CHARS else f"{said[:REASON_CHARS]}..."
