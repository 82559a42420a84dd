"""The documentation site: what ``mkdocs build`` makes of the repository."""
