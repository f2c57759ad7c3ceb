"""All attention mechanisms by name. To add one, write a file in this folder and list it below."""

from __future__ import annotations

from attnlab.extensions import Registry
from attnlab.mechanism import Mechanism
from attnlab.mechanisms._compiled import status as compiled_status
from attnlab.mechanisms.bigbird import BigBird
from attnlab.mechanisms.elu import Elu
from attnlab.mechanisms.favor import Favor
from attnlab.mechanisms.fourier import Fourier
from attnlab.mechanisms.hard import Hard
from attnlab.mechanisms.linformer import Linformer
from attnlab.mechanisms.polynomial import Polynomial
from attnlab.mechanisms.relu import Relu
from attnlab.mechanisms.softmax import Softmax
from attnlab.mechanisms.synthesizer import (
    Synthesizer,
    SynthesizerFactorized,
    SynthesizerRandom,
)
from attnlab.mechanisms.window import Window

__all__ = ["MECHANISMS", "compiled_status"]

MECHANISMS = Registry[type[Mechanism]](
    "attnlab.mechanisms",
    {
        mechanism.name: mechanism
        for mechanism in (
            Softmax,
            Hard,
            Elu,
            Relu,
            Polynomial,
            Fourier,
            Favor,
            Linformer,
            BigBird,
            Window,
            Synthesizer,
            SynthesizerRandom,
            SynthesizerFactorized,
        )
    },
)
