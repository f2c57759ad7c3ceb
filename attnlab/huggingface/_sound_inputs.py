"""Reads a WAV file for a Hugging Face model. Other formats need a decoder that attnlab lacks."""

from __future__ import annotations

import inspect
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from attnlab.interpret._arrangement import SoundMedium
from attnlab.interpret._records import Sequence

MAX_BYTES = 200_000_000


def read_wave(path: Path, rate: int) -> np.ndarray:
    """The sound as one channel of floats from -1 to 1, at this sampling rate."""
    if not path.is_file():
        raise ValueError(f"{path}: does not exist; give a WAV file")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path}: is larger than {MAX_BYTES:,} bytes; give a shorter sound")
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, own_rate = (
                file.getnchannels(), file.getsampwidth(), file.getframerate(),
            )  # fmt: skip
            content = file.readframes(file.getnframes())
    except (wave.Error, EOFError, OSError) as error:
        raise ValueError(f"{path}: is no WAV file with plain samples ({error})") from None
    if not (channels > 0 and 1 <= width <= 4 and own_rate > 0):
        raise ValueError(f"{path}: has {channels} channels of {width} bytes at {own_rate} Hz")
    samples = _as_floats(content[: len(content) // (width * channels) * width * channels], width)
    samples = samples.reshape(-1, channels).mean(1)
    if not len(samples):
        raise ValueError(f"{path}: has no samples")
    return _resample(samples, own_rate, rate).astype(np.float32)


def _as_floats(content: bytes, width: int) -> np.ndarray:
    if width == 1:
        return np.frombuffer(content, np.uint8) / 128.0 - 1.0
    if width == 3:  # the highest three bytes of a number of four
        parts = np.frombuffer(content, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(parts), 4), np.uint8)
        wide[:, 1:] = parts
        return wide.reshape(-1).view("<i4") / 2.0**31
    return np.frombuffer(content, f"<i{width}") / 2.0 ** (8 * width - 1)


def _resample(samples: np.ndarray, own_rate: int, rate: int) -> np.ndarray:
    """By cutting or extending the spectrum."""
    if own_rate == rate:
        return samples
    count = max(1, round(len(samples) * rate / own_rate))
    if count > MAX_BYTES:
        raise ValueError(f"a sound at {own_rate} Hz has too many samples at {rate} Hz")
    spectrum = np.fft.rfft(samples)
    bins = count // 2 + 1
    spectrum = np.pad(spectrum, (0, max(0, bins - len(spectrum))))[:bins]
    return np.fft.irfft(spectrum, count) * (count / len(samples))


def read_sound(
    model: Any, extractor: Any, path: Path
) -> tuple[dict[str, Tensor], SoundMedium | None, float]:
    """The model's inputs, the sound with the padding of the extractor, and its seconds."""
    rate = int(extractor.sampling_rate)
    samples = read_wave(path, rate)
    encoding = extractor(samples, sampling_rate=rate, return_tensors="pt")
    inputs = {name: encoding[name] for name in encoding if name in _accepted(model)}
    seconds = len(samples) / rate
    return inputs, sound_medium(model, extractor, seconds), seconds


def sound_medium(model: Any, extractor: Any, seconds: float) -> SoundMedium | None:
    """The sound as the model reads it; None if its tokens are no times."""
    configs = (model.config, getattr(model.config, "audio_config", None))
    if any(getattr(config, "patch_size", None) for config in configs):
        return None  # patches of a spectrogram
    padded = getattr(extractor, "n_samples", None)  # Whisper's reads 30 seconds
    return SoundMedium(max(seconds, padded / extractor.sampling_rate if padded else 0.0))


def _accepted(model: Any) -> set[str]:
    return set(inspect.signature(model.forward).parameters)


def read_sound_and_text(processor: Any, extractor: Any, path: Path, text: str) -> tuple[Any, float]:
    """The encoding of both by the model's processor, and the seconds of the sound."""
    rate = int(extractor.sampling_rate)
    samples = read_wave(path, rate)
    token = getattr(processor, "audio_token", None)
    if isinstance(token, str) and token not in text:
        text = f"{token}{text}"
    encoding = processor(text=text, audio=samples, sampling_rate=rate, return_tensors="pt")
    return encoding, len(samples) / rate


def sound_token_id(model: Any, processor: Any) -> int | None:
    """The id of the token that stands for a part of a sound."""
    for owner in (model.config, processor):
        for name in ("audio_token_id", "audio_token_index"):
            index = getattr(owner, name, None)
            if isinstance(index, int):
                return index
    return None


def mark_times(
    sequence: Sequence, ids: list[int], sound_id: int | None, seconds: float
) -> Sequence:
    """The text, whose sound tokens are named by their time."""
    positions = [position for position, index in enumerate(ids) if index == sound_id]
    if not positions:
        return sequence
    times = SoundMedium(seconds).tokens(len(positions)).texts
    texts, special = list(sequence.texts), list(sequence.special)
    for position, time in zip(positions, times, strict=True):
        texts[position], special[position] = time, False
    return replace(sequence, texts=texts, special=special)
