"""Parquet files of plain columns: how they are encoded, and laid out. It knows nothing of runs."""
