"""Who goes first: policies, fairshare, the order of the queue. They use the columns."""
