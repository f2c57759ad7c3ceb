"""See what any model attends to."""
