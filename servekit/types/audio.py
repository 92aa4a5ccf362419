# SPDX-License-Identifier: Apache-2.0
"""Untrusted sound as arrays: WAV without a library, other formats with ``soundfile``."""

import io
import wave
from typing import Any, Final

import numpy as np

from servekit.types import Audio, MediaRefused

__all__ = ["MAX_SAMPLES", "read_audio"]

MAX_SAMPLES: Final = 1 << 26  #: samples of all channels; 256 MiB as float32, 25 minutes of a CD
TOO_LONG: Final = f"over the limit of {MAX_SAMPLES} samples"
MAX_WIDTH: Final = 4  #: bytes of a PCM sample
UNREADABLE: Final = "not a readable audio file"
NEEDS_SOUNDFILE: Final = "not a PCM WAV file; nothing reads other formats here"


def read_audio(content: bytes) -> Audio:
    """Return the samples as float32 of [-1, 1], shape ``[frames, channels]``.

    :raises MediaRefused: nothing here can read it, or it holds more than ``MAX_SAMPLES``.
    """
    try:
        found = _wav(content) or _other(content)
    except (MediaRefused, MemoryError):
        raise
    except Exception as error:  # the reader met something unexpected
        raise MediaRefused(UNREADABLE) from error
    if found.sample_rate < 1:
        raise MediaRefused(f"a sample rate of {found.sample_rate}, expected at least 1")
    return found


def _wav(content: bytes) -> Audio | None:
    """Return the samples of a PCM WAV file; ``None`` if it is something else."""
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        return None
    try:
        with wave.open(io.BytesIO(content)) as file:
            return _pcm(file)
    except (wave.Error, EOFError, RuntimeError):  # floats, compressed, or not a WAV file at all
        return None


def _pcm(file: wave.Wave_read) -> Audio:
    width, channels = file.getsampwidth(), file.getnchannels()
    if width > MAX_WIDTH:
        raise MediaRefused(f"samples of {8 * width} bits, limit {8 * MAX_WIDTH}")
    if file.getnframes() * channels > MAX_SAMPLES:
        raise MediaRefused(TOO_LONG)
    data = file.readframes(file.getnframes())
    count = len(data) // (width * channels) * channels  # the header may promise more
    samples = _scaled(np.frombuffer(data, np.uint8, count * width), width)
    return Audio(samples.reshape(-1, channels), file.getframerate())


def _scaled(data: "np.ndarray[Any, Any]", width: int) -> "np.ndarray[Any, Any]":
    """Return samples of *width* bytes as float32 of [-1, 1]."""
    if width == 1:  # alone without a sign
        return (data.astype(np.float32) - 128) / 128
    wide = np.zeros((len(data) // width, 4), np.uint8)
    wide[:, 4 - width :] = data.reshape(-1, width)
    return wide.view("<i4")[:, 0].astype(np.float32) / np.float32(2**31)


def _other(content: bytes) -> Audio:
    try:
        import soundfile
    except (ImportError, OSError):  # or its library is not there
        raise MediaRefused(NEEDS_SOUNDFILE) from None
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            if file.frames * file.channels > MAX_SAMPLES:
                raise MediaRefused(TOO_LONG)
            return Audio(file.read(dtype="float32", always_2d=True), file.samplerate)
    except soundfile.SoundFileError:
        raise MediaRefused(UNREADABLE) from None
