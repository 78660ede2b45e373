"""The hosts that a cell has, for whoever asks whether any would do."""

OFFERS = "offered > 0 AND lost_session < session"
"""The condition of the table of hosts: a host offers something, and isn't given up; one that is silent counts."""
