"""The batch level: queue, policies, backfilling, allocation. The README lists the modules."""
