"""Make a page for each of the sentences that are often used to explain attention.

    python examples/classic_sentences.py --causal MODEL     a decoder, such as gpt2 or smollm2
    python examples/classic_sentences.py --encoder MODEL    an encoder, such as bert or minilm
    python examples/classic_sentences.py --contrast MODEL   trained against untrained weights

MODEL is a name that `attnlab models` lists, or a folder with a Hugging Face model or an attnlab
run. The pages hold queries, keys and values too, in the view Neurons. They go to --out, by default
`pages`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

CAUSAL = {
    "dog-ran": "The dog ran",
    "dog-in-the-car": "The dog sitting in the car",
    "salazar": "Jaime Salazar is running for election. Despite his party affiliation, Mr.",
}
PAIRS = {
    "party": ("I wanted to have a party", "I bought a cake for it."),
    "party-reversed": ("I bought a cake for it.", "I wanted to have a party"),
    "party-swapped": ("I wanted to have a cake", "I bought a party for it."),
    "play": ("I was going to play at the park.", "I was going to a play in the park."),
}
CONTRAST = {"happy": "I am happy", "not-sad": "I am not sad"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("causal", "encoder", "contrast"):
        parser.add_argument(f"--{name}", type=Path, metavar="MODEL")
    parser.add_argument("--out", type=Path, default=Path("pages"))
    arguments = parser.parse_args()
    if not any((arguments.causal, arguments.encoder, arguments.contrast)):
        parser.error("give --causal, --encoder or --contrast with a model")

    from attnlab import look  # importing torch takes seconds; --help should be fast

    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.causal:
        for name, text in CAUSAL.items():
            capture = look(arguments.causal, text, generate=8, neurons=True)
            capture.save(arguments.out / f"{name}.html")
    if arguments.encoder:
        for name, (first, second) in PAIRS.items():
            capture = look(arguments.encoder, first, pair=second, neurons=True)
            capture.save(arguments.out / f"{name}.html")
    if arguments.contrast:
        for name, text in CONTRAST.items():
            capture = look(arguments.contrast, text, untrained=True, neurons=True)
            capture.save(arguments.out / f"{name}.html")
    print("\n".join(sorted(str(page) for page in arguments.out.glob("*.html"))))


if __name__ == "__main__":
    main()
