"""All that needs numba: loaded when a kernel is compiled, or called in a way that numba must arrange."""
