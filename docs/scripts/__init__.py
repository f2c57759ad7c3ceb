"""Generates the parts of the documentation that come from the code: make docs."""
