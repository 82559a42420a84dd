"""What is learned at the end of each week from the jobs that have ended: classes of jobs, and run times."""
