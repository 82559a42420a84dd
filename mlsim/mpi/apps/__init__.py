"""Applications whose loops are self-scheduled: ``python -m mlsim.mpi.apps.mandelbrot`` and others."""
