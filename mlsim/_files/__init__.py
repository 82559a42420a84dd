"""Everything that is read from disk comes through here: bounded, decoded with care.

What a file of the user's does wrong becomes an :class:`~mlsim.errors.InputError` that names the file,
whatever library finds it out. ``opening`` opens and bounds, ``decoding`` turns bytes into text and JSON,
``memory`` says how much may be held. By themselves, as they load large libraries: ``npy`` reads columns
of NumPy, ``parquet`` those of Parquet.
"""

from mlsim._files.decoding import decode, json_of, read_json, read_text
from mlsim._files.opening import (
    expanded,
    is_directory,
    is_file,
    is_there,
    memory_limit,
    most_held,
    named,
    open_file,
    read_bytes,
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
    "read_text",
    "reason_of",
    "resolved",
]
