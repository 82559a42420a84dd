"""Order of the queue: policies and fairshare. They use the columns."""
