"""Studies of whole runs by the names that they had when studies of loops were another thing."""
