"""Bounded, validated reading of all input files.

Defects in a user's file raise an :class:`~mlsim.errors.InputError` that names the file, whichever library
detects them. ``input_files`` opens, limits and decodes files; ``parquet`` is apart, as it loads Polars.
"""

from mlsim._files.input_files import (
    decode,
    expanded,
    is_directory,
    is_file,
    is_there,
    json_of,
    memory_limit,
    most_held,
    named,
    open_file,
    read_bytes,
    read_json,
    read_lines,
    read_text,
    reason_of,
    resolved,
)

__all__ = [
    "decode",
    "expanded",
    "is_directory",
    "is_file",
    "is_there",
    "json_of",
    "memory_limit",
    "most_held",
    "named",
    "open_file",
    "read_bytes",
    "read_json",
    "read_lines",
    "read_text",
    "reason_of",
    "resolved",
]
