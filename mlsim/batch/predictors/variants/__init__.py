"""The predictors of the catalogue.

They use the job as predictors see it.
"""
