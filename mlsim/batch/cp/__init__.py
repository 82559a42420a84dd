"""Dispatchers that plan by constraint programming (OR-Tools CP-SAT)."""
