"""Who does the tasks of a study: this process, others of this machine, or those of MPI or Dask.

Whoever does them, they give the same. An executor only hands tasks out and results back.
"""
