"""The groups under which `attnlab COMMAND --help` lists options.

A setting names its group where it is declared, after the sentence that explains it:

    learning_rate: Annotated[float, "Peak learning rate of AdamW.", OPTIMIZER, COMMON] = 3e-3

COMMON options are those that most people need. They come first, without the others of their group.
An option without a group is common too.
"""

from __future__ import annotations

from enum import Enum


class HelpGroup(Enum):
    """Headings of the help, in the order in which they are printed."""

    COMMON = "Options"
    DATA = "Data"
    MODEL = "Model"
    TRAINING = "Training"
    OPTIMIZER = "Optimizer"
    VALIDATION = "Validation and checkpoints"
    HARDWARE = "Hardware"
    MEASUREMENT = "Measurement"
    GENERATION = "Text generation"
    CAPTURE = "Capture"
    OUTPUT = "Output"


COMMON = HelpGroup.COMMON
DATA = HelpGroup.DATA
MODEL = HelpGroup.MODEL
TRAINING = HelpGroup.TRAINING
OPTIMIZER = HelpGroup.OPTIMIZER
VALIDATION = HelpGroup.VALIDATION
HARDWARE = HelpGroup.HARDWARE
MEASUREMENT = HelpGroup.MEASUREMENT
GENERATION = HelpGroup.GENERATION
CAPTURE = HelpGroup.CAPTURE
OUTPUT = HelpGroup.OUTPUT

ATTENTION_HELP = (
    "Attention mechanism of all layers, or one name per layer. Options follow a colon, as in "
    "favor:features=64."
)
"""Of --attention, which models and commands declare."""
