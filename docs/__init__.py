"""Documentation, and the scripts that write what it takes from the code."""
