"""Which jobs start when: greedy, EASY, reservations, the profile; once for every room.

It uses the order and the room.
"""
