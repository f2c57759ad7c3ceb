"""The parts of a Hugging Face processor: what it makes of a text, of an image, of a sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NEEDED = {
    "text": "tokenizer",
    "image": "image processor",
    "sound": "feature extractor",
}


@dataclass(frozen=True)
class Processors:
    """`whole` is what was given; the others are its parts, or itself."""

    whole: Any
    text: Any
    image: Any
    sound: Any

    @classmethod
    def of(cls, given: Any) -> Processors:
        """Split a processor; a tokenizer, an image processor and a feature extractor are each
        one of the parts."""
        tokenizer = getattr(given, "tokenizer", None)
        image = getattr(given, "image_processor", None)
        sound = getattr(given, "feature_extractor", None)
        if tokenizer is None and hasattr(given, "convert_ids_to_tokens"):
            tokenizer = given
        if image is None and "ImageProcessor" in type(given).__name__:
            image = given
        if sound is None and hasattr(given, "sampling_rate"):
            sound = given
        if image is None and "ImageProcessor" in type(sound).__name__:
            image, sound = sound, None  # some older models have one under this name
        return cls(given, tokenizer, image, sound)

    @property
    def reads_both(self) -> bool:
        """Whether one call takes a text and an image."""
        return self.whole is not self.text and self.whole is not self.image
