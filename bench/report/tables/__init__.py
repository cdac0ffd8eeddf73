"""Records and statistics in, tables out, for pages, CSV, LaTeX and Markdown. Knows nothing of pages."""
