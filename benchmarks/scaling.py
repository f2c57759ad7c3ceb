"""How cost grows with length: `attnlab bench speed` with a longer range than its own.

python benchmarks/scaling.py [options of attnlab bench speed]
"""

from __future__ import annotations

import sys

from attnlab.cli import main

LENGTHS = ["1024", "2048", "4096", "8192", "16384"]

if __name__ == "__main__":
    main(["bench", "speed", "--lengths", *LENGTHS, "--head-dim", "32", *sys.argv[1:]])
