"""Which jobs start when: in order, greedy, EASY, reservations, the profile.

It uses the order, the room and the allocators.
"""
