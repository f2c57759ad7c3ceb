"""Vision: say what an image shows."""
