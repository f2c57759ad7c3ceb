"""All attention mechanisms by name. To add one, write a file in this folder and list it below."""

from __future__ import annotations

from attnlab.extensions import Registry
from attnlab.mechanism import Mechanism
from attnlab.mechanisms._compiled import status as compiled_status
from attnlab.mechanisms.based import Based
from attnlab.mechanisms.bigbird import BigBird
from attnlab.mechanisms.cosformer import Cosformer
from attnlab.mechanisms.differential import Differential
from attnlab.mechanisms.elu import Elu
from attnlab.mechanisms.entmax import Entmax15, Sparsemax
from attnlab.mechanisms.favor import Favor
from attnlab.mechanisms.forgetting import Forgetting
from attnlab.mechanisms.fourier import Fourier
from attnlab.mechanisms.hard import Hard
from attnlab.mechanisms.hedgehog import Hedgehog
from attnlab.mechanisms.hedgehog_window import HedgehogWindow
from attnlab.mechanisms.linformer import Linformer
from attnlab.mechanisms.polynomial import Polynomial
from attnlab.mechanisms.recurrent import Delta, GatedDelta, Gla, KimiDelta, Mamba2, Retention
from attnlab.mechanisms.relu import Relu
from attnlab.mechanisms.sigmoid import Sigmoid
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
            Based,
            Hedgehog,
            HedgehogWindow,
            Cosformer,
            Forgetting,
            Differential,
            Sigmoid,
            Sparsemax,
            Entmax15,
            Retention,
            Gla,
            Mamba2,
            Delta,
            GatedDelta,
            KimiDelta,
        )
    },
)
