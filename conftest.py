"""Examples in docstrings are tests as well; those of real runs need mpi4py."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("mpi4py") else ["mlsim/mpi/*.py", "mlsim/mpi/*/*.py"]
