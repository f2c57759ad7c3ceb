"""One `Report` of sections, tables and plots, for the terminal, a page, Markdown, JSON and figures."""
