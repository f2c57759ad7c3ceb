"""`attnlab demo`: a small model learns facts by four methods, reports which answers it knows and
which it guesses, and shows what it attends to. `_run_demo` runs it; `_parts` lists its parts.
"""
