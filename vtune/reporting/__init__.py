"""Records to terminal, CSV, Markdown and HTML."""
