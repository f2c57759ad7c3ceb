"""One `Report` for the terminal, a page, Markdown, JSON and figures."""
