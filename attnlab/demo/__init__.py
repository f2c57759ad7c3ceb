"""`attnlab demo`: a small model learns facts in four ways, says what it knows and what it guesses,
and shows where it looked. `attnlab.demo.running` runs it; `attnlab.demo.parts` declares its parts.
"""
