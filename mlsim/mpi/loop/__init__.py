"""What the ranks of one loop share: options, rules of techniques, what they note.

Uses the transport.
"""
