"""What the documentation takes from the code: make docs."""
