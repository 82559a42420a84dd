"""One pass over the queue, compiled; the views and answers of user-defined dispatchers."""
