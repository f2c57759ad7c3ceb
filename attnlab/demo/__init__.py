"""`attnlab demo`: a small model learns facts in four ways, says what it knows and what it guesses,
and shows where it looked. `_run_demo` runs it; `_parts` declares its parts.
"""
