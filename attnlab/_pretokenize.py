"""Units of text that byte-level BPE encodes independently, so that frequent ones are encoded once.

The byte-level pre-tokenizer of Hugging Face uses GPT-2's pattern:
`'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+`.
Python's `re` knows neither `\\p{L}` nor the library's version of Unicode. So only ASCII decides
where a unit ends; a word with other characters is one unit up to the next white space, and the
library splits it.
"""

from __future__ import annotations

import re

SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # Unicode White_Space
WIDE = r"\x80-\U0010ffff"
UNITS = re.compile(
    rf" ?[A-Za-z]++(?![{WIDE}])"
    r"|'(?:[stmd]|re|ve|ll)"
    rf"| ?[0-9]++(?![{WIDE}])"
    rf"| ?[^{SPACE}A-Za-z0-9{WIDE}]++(?![{WIDE}])"
    rf"| ?[^{SPACE}]+"
    rf"|[{SPACE}]+(?![^{SPACE}])"
    rf"|[{SPACE}]+"
)
"""Matches every character of a text. A match ends where one of GPT-2's pattern ends."""

# A word may end before a space or a line break, and Chinese or Japanese before their punctuation:
# byte pairs never reach across, in any version of Unicode.
BREAK = re.compile(
    r"(?<=\w)[ \n]|(?<=[\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5])[\u3001\u3002\uff0c]"
)


def last_break(text: str, start: int, size: int, limit: int) -> int | None:
    """The end of a part from `start` on, of about `size` characters and at most `limit`.

    The parts have the same tokens as the whole, unless the text has no break for `limit`
    characters. None: the text is too short to tell.

    >>> from attnlab._pretokenize import last_break
    >>> last_break("one two three", 0, size=9, limit=12)
    7
    """
    end = start + size
    if len(text) <= end:
        return None
    for first in (max(start, end - 1024), start):  # a break is usually near
        breaks = [match.start() for match in BREAK.finditer(text, first + 1, end + 1)]
        if breaks:
            return breaks[-1]
    later = BREAK.search(text, end + 1, start + limit + 1)
    if later is not None:
        return later.start()
    return start + limit if len(text) > start + limit else None
