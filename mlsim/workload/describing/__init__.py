"""What a log holds, in figures and in pictures, read a block of jobs at a time."""
