"""The scenario as a whole: its schema, what joins sections, and what follows from all of them.

Uses every section; knows nothing of files.
"""
