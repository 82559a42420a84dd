"""What is kept of jobs and passes for the records. It uses the columns and the requests."""
