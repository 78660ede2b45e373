"""Admission: units are entitled, or lent to, within bounds."""
