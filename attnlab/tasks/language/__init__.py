"""Language modelling: predict the next token of a text."""
