"""Models of workloads: jobs drawn from published distributions, in blocks of bounded size."""
