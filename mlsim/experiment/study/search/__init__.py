"""Searches: the least (or largest) value of a metric over parameters of a scenario.

From the top down: ``results`` writes what a search leaves, by ``tables`` and ``picture``; ``searching`` goes
from generation to generation; ``outcome`` says how good candidates are, by the rows of their runs;
``candidates`` makes runs of them; ``methods`` choose them; ``reading`` reads ``search:`` of a study file;
``model`` is what it says; ``space`` holds the parameters.
"""
