"""The batch level: queue, policies, backfilling, allocation. The README says where things are."""
