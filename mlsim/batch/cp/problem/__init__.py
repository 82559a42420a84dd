"""What planners are asked and answer: instances, plans, and what both are made with.

It uses the view.
"""
