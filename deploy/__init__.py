"""Runs the parts of Paceline as processes of their own, on one machine."""
