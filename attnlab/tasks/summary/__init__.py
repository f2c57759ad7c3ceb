"""Summaries: read a text, write what it says in few words, and show where each word came from."""
