"""The declarations of the abilities: one line each. The module of the same name has the class."""

from __future__ import annotations

from attnlab.tasks.kind import TaskKind

GROUP = "abilities"


def ability(name: str, sentence: str) -> TaskKind:
    """The kind of the class NoisyRecall in noisy_recall.py, which is imported when it is needed."""
    class_name = "".join(word.capitalize() for word in name.split("_"))
    return TaskKind(
        name=name,
        help=sentence,
        headline="accuracy",
        better="higher",
        recipe=f"{__package__}.{name}:{class_name}",
        group=GROUP,
    )


ABILITIES = (
    ability("recall", "Recall the values of several keys."),
    ability("noisy_recall", "Recall values while ignoring noise between the pairs."),
    ability("fuzzy_recall", "Recall values where keys and values are several tokens long."),
    ability("selective_copy", "Copy tokens in their order and leave out the blanks between them."),
    ability("compress", "Collect a whole row in the vector of its last token."),
    ability("memorize", "Memorize a fixed table of keys and values in the weights."),
    ability("induction", "Continue a sequence that occurred before."),
    ability("copy", "Write a sequence again."),
    ability("reverse", "Write a sequence backwards."),
    ability("sort", "Write the tokens of a sequence in ascending order."),
    ability("parity", "Tell after every bit whether the number of ones is odd."),
    ability("majority", "Tell which of two tokens is more frequent."),
    ability("listops", "Evaluate nested minima, maxima, medians and sums of digits."),
    ability("needle", "Find one fact in a long text."),
    ability("extrapolate", "Do another ability on rows longer than those of the training."),
)
