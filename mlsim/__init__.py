"""mlsim: scheduling on HPC systems, simulated at the batch and at the application level at once."""
