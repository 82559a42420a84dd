"""Support for the process that runs: imports, memory, processes, places on disk, progress."""
