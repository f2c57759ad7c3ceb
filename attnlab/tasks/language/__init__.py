"""Language modeling: predict the next token of a text."""
