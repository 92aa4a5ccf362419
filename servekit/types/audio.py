# SPDX-License-Identifier: Apache-2.0
"""Untrusted sound as arrays, and arrays as sound: WAV by itself, other formats by ``soundfile``."""

import io
import wave
from contextlib import suppress
from typing import Any, Final

import numpy as np

from servekit.types import Audio, MediaRefused

__all__ = ["FLAC", "MAX_SAMPLES", "WAV", "read_audio", "writable", "write_audio"]

MAX_SAMPLES: Final = 1 << 26  #: samples of all channels; 256 MiB as float32, 25 minutes of a CD
TOO_LONG: Final = f"over the limit of {MAX_SAMPLES} samples"
MAX_WIDTH: Final = 4  #: bytes of a PCM sample
UNREADABLE: Final = "not a readable audio file"
NEEDS_SOUNDFILE: Final = "not a PCM WAV file; nothing reads other formats here"

WAV: Final = "audio/wav"
FLAC: Final = "audio/flac"
MOST_CHANNELS: Final = {WAV: 64, FLAC: 8}
MAX_RATE: Final = 655_350  #: frames per second, the limit of FLAC


# ------------------------------------------------------------ reading


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


class _Content(io.BytesIO):
    """A file that a broken header may send anywhere: soundfile would print the traceback."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Return the new place, or the old one if there is no such place."""
        with suppress(ValueError):
            return super().seek(offset, whence)
        return self.tell()


def _other(content: bytes) -> Audio:
    soundfile = _soundfile()
    if soundfile is None:
        raise MediaRefused(NEEDS_SOUNDFILE)
    try:
        with soundfile.SoundFile(_Content(content)) as file:
            if file.frames * file.channels > MAX_SAMPLES:
                raise MediaRefused(TOO_LONG)
            return Audio(file.read(dtype="float32", always_2d=True), file.samplerate)
    except soundfile.SoundFileError:
        raise MediaRefused(UNREADABLE) from None


# ------------------------------------------------------------ writing


def writable() -> list[str]:
    """Return the media types that can be written here, the best first."""
    return [WAV, FLAC] if _soundfile() is not None else [WAV]


def write_audio(audio: Audio, media_type: str, bits: int = 16) -> bytes:
    """Return *audio* as a file of *media_type*, one of ``writable()``.

    Its samples are floats of [-1, 1], beyond which they are clipped, or int16. A shape
    ``[frames]`` is one channel.

    :param bits: of a sample in the file, 16 or 24.
    :raises ValueError: they are not, or there are more channels than the format can hold, or
        no frames for FLAC.
    """
    samples, rate = _checked(audio, MOST_CHANNELS[media_type])
    if media_type == FLAC and not len(samples):
        raise ValueError("samples of no frames, which FLAC cannot hold")
    levels = _levels(samples, bits)
    if media_type == WAV:
        return _wav_file(levels, rate, bits)
    soundfile, file = _soundfile(), io.BytesIO()
    as_int32 = levels << (32 - bits)
    soundfile.write(file, as_int32, rate, format="FLAC", subtype=f"PCM_{bits}")
    return file.getvalue()


def _checked(audio: Audio, most_channels: int) -> "tuple[np.ndarray[Any, Any], int]":
    """Return samples of shape ``[frames, channels]``, and their rate.

    :raises ValueError: the shape, the dtype or the rate is wrong.
    """
    samples, rate = np.asarray(audio.samples), audio.sample_rate
    samples = samples[:, None] if samples.ndim == 1 else samples
    if samples.ndim != 2 or not 1 <= samples.shape[1] <= most_channels:
        shape = list(samples.shape)
        raise ValueError(f"samples of shape {shape}, expected [frames, 1 to {most_channels}]")
    if samples.dtype.kind != "f" and samples.dtype != np.int16:
        raise ValueError(f"samples of {samples.dtype}, expected floats of [-1, 1], or int16")
    if rate != int(rate) or not 1 <= rate <= MAX_RATE:
        raise ValueError(f"a sample rate of {rate}, expected 1 to {MAX_RATE}")
    return samples, int(rate)


def _levels(samples: "np.ndarray[Any, Any]", bits: int) -> "np.ndarray[Any, Any]":
    """Return *samples* as int32 of as many *bits*."""
    if samples.dtype == np.int16:
        return samples.astype(np.int32) << (bits - 16)
    if not np.isfinite(samples).all():
        raise ValueError("samples that are NaN or infinite")
    if samples.itemsize < 4:  # float16 holds no level beyond 65504
        samples = samples.astype(np.float32)
    most = 1 << (bits - 1)
    levels = np.rint(np.clip(samples, -1, 1) * float(most))
    found: np.ndarray[Any, Any] = np.minimum(levels, most - 1)
    return found.astype(np.int32)


def _wav_file(levels: "np.ndarray[Any, Any]", rate: int, bits: int) -> bytes:
    width = bits // 8
    data = levels.astype("<i4").view(np.uint8).reshape(*levels.shape, 4)[..., :width]
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(levels.shape[1])
        written.setsampwidth(width)
        written.setframerate(rate)
        written.writeframes(data.tobytes())
    return file.getvalue()


def _soundfile() -> Any:
    """Return the library for formats other than WAV; ``None`` if it is not there."""
    try:
        import soundfile
    except (ImportError, OSError):  # or its own library is missing
        return None
    return soundfile
