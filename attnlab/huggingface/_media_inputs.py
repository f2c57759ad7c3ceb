"""Inputs of a Hugging Face model that reads an image or a sound, alone or with a text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnlab.huggingface._image_inputs import image_token_id, read_image, read_image_and_text
from attnlab.huggingface._sound_inputs import (
    mark_times,
    read_sound,
    read_sound_and_text,
    sound_token_id,
)  # fmt: skip
from attnlab.interpret._arrangement import Medium
from attnlab.interpret._inspected_model import PreparedInput, move_to_model
from attnlab.interpret._options import LookInput
from attnlab.interpret._records import Sequence

if TYPE_CHECKING:
    from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel


class MediaReader:
    """Reads the inputs of one model."""

    def __init__(self, inspected: InspectedHuggingFaceModel) -> None:
        self.inspected, self.model = inspected, inspected.model
        self.processors = inspected.processors

    def read(self, look_input: LookInput) -> PreparedInput:
        if look_input.image is not None and look_input.sound is not None:
            raise ValueError("--image and --sound exclude each other; give one of them")
        with_text = look_input.text is not None and self.inspected.kind != "vision"
        if look_input.sound is not None:
            return self._sound_and_text(look_input) if with_text else self._sound(look_input)
        return self._image_and_text(look_input) if with_text else self._image(look_input)

    def _image(self, look_input: LookInput) -> PreparedInput:
        assert look_input.image is not None
        processor = self.inspected.processor_of("image")
        inputs, medium = read_image(self.model, processor, look_input.image)
        if self.inspected.kind != "vision":
            return self._with_target(inputs, medium, look_input, [])
        known = None
        if medium is not None and medium.grid is not None:
            count = len(medium.before) + medium.grid[0] * medium.grid[1]
            if self._first_length(inputs) == count:
                known = medium.tokens(count)
        return PreparedInput(
            inputs, [] if known is None else [known], media=[] if medium is None else [medium]
        )

    def _first_length(self, inputs: dict[str, Tensor]) -> int:
        """Number of tokens that the first layer reads; 0 if it does not read tokens."""
        with torch.no_grad():
            moved = move_to_model(self.model, inputs)
            out = self.model(**moved, output_hidden_states=True, return_dict=True)
        states = getattr(out, "hidden_states", None) or [torch.empty(0)]
        return int(states[0].shape[1]) if states[0].dim() == 3 else 0

    def _sound(self, look_input: LookInput) -> PreparedInput:
        assert look_input.sound is not None
        extractor = self.inspected.processor_of("sound")
        inputs, medium, seconds = read_sound(self.model, extractor, look_input.sound)
        notes = []
        if medium is not None and medium.seconds > seconds:
            notes.append(
                f"The sound lasts {seconds:.2f} s; the model reads it with silence up to "
                f"{medium.seconds:.0f} s."
            )
        return self._with_target(inputs, medium, look_input, notes)

    def _with_target(
        self,
        inputs: dict[str, Tensor],
        medium: Medium | None,
        look_input: LookInput,
        notes: list[str],
    ) -> PreparedInput:
        """With the text that a decoder writes, if there is one."""
        media = [] if medium is None else [medium]
        if self.inspected.kind != "encoder-decoder":
            return PreparedInput(inputs, [], media=media, notes=notes)
        self.inspected.processor_of("text")
        target, more = self.inspected.read_target(inputs, look_input)
        inputs = {**inputs, "decoder_input_ids": torch.tensor([target.ids])}
        ids = tuple(target.ids or ())
        return PreparedInput(inputs, [target], 0, ids, [*notes, *more], media)

    def _image_and_text(self, look_input: LookInput) -> PreparedInput:
        assert look_input.image is not None
        encoding, image = read_image_and_text(
            self.model, self._both(), self.inspected.processor_of("image"), look_input.image,
            look_input.text or "",
        )  # fmt: skip
        ids = encoding["input_ids"][0].tolist()
        sequence = image.mark(
            self._text(ids), ids, image_token_id(self.model, self.processors.whole)
        )
        media: list[Medium] = [] if image.medium is None else [image.medium]
        return self._text_input(encoding, sequence, media, look_input)

    def _sound_and_text(self, look_input: LookInput) -> PreparedInput:
        assert look_input.sound is not None
        encoding, seconds = read_sound_and_text(
            self._both(), self.inspected.processor_of("sound"), look_input.sound,
            look_input.text or "",
        )  # fmt: skip
        ids = encoding["input_ids"][0].tolist()
        token = sound_token_id(self.model, self.processors.whole)
        sequence = mark_times(self._text(ids), ids, token, seconds)
        return self._text_input(encoding, sequence, [], look_input)

    def _both(self) -> Any:
        """The processor of both, or the tokenizer and the image processor beside each other."""
        self.inspected.processor_of("text")
        return self.processors.whole

    def _text(self, ids: list[int]) -> Sequence:
        hints: list[object] = [None] * len(ids)
        return self.inspected.sequence_of("text", ids, hints, None, None)

    def _text_input(
        self, encoding: Any, sequence: Sequence, media: list[Medium], look_input: LookInput
    ) -> PreparedInput:
        inspected = self.inspected
        accepted = inspected.accepted
        inputs = {name: x for name, x in encoding.items() if name in accepted}
        if inspected.kind == "encoder-decoder":
            target, notes = inspected.read_target(inputs, look_input)
            inputs = {**inputs, "decoder_input_ids": torch.tensor([target.ids])}
            source = replace(sequence, name="source")
            return PreparedInput(inputs, [source, target], 1, tuple(target.ids or ()), notes, media)
        if look_input.generate:
            raise ValueError(
                f"{inspected.label}: --generate works with --text alone; omit it, or the image or "
                "sound"
            )
        predicted = 0 if inspected.kind == "decoder" else None
        return PreparedInput(inputs, [sequence], predicted, tuple(sequence.ids or ()), [], media)
