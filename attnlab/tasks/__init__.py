"""Tasks: the data, loss, metric and recipe of each."""
