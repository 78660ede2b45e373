"""Campaigns of maintenance: in which order hosts are emptied, worked on, checked and taken back (decision 088)."""
