"""Selection of a technique for each time step of a loop: by rule, by trial, by learning, by simulation."""
