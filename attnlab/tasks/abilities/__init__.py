"""Abilities: small tasks with exact answers that show what a mechanism can do.

One file per ability. `kind.py` lists them, and `attnlab abilities` prints them.
"""
