"""The two clocks: SimPy's, and the compiled one. They use the state and the recording."""
