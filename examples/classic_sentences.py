"""Make a page for each of the sentences that are often used to explain attention.

    python examples/classic_sentences.py --causal FOLDER     a decoder, such as GPT-2 or SmolLM2
    python examples/classic_sentences.py --encoder FOLDER    an encoder, such as BERT or MiniLM
    python examples/classic_sentences.py --contrast FOLDER   trained against untrained weights

FOLDER holds a Hugging Face model or an attnlab run. The pages go to --out, by default `pages`.
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
        parser.add_argument(f"--{name}", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path("pages"))
    arguments = parser.parse_args()
    if not any((arguments.causal, arguments.encoder, arguments.contrast)):
        parser.error("give --causal, --encoder or --contrast with a folder")

    from attnlab import look  # importing torch takes seconds; --help should be fast

    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.causal:
        for name, text in CAUSAL.items():
            look(arguments.causal, text, generate=8).save(arguments.out / f"{name}.html")
    if arguments.encoder:
        for name, (first, second) in PAIRS.items():
            look(arguments.encoder, first, pair=second).save(arguments.out / f"{name}.html")
    if arguments.contrast:
        for name, text in CONTRAST.items():
            capture = look(arguments.contrast, text, untrained=True)
            capture.save(arguments.out / f"{name}.html")
    print("\n".join(sorted(str(page) for page in arguments.out.glob("*.html"))))


if __name__ == "__main__":
    main()
