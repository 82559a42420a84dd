"""RCA on a real Slurm: the controller's plugin, a trial cluster on one machine, the ESP workload on it."""
