"""Stretches of history: taken out as a file, brought to another machine, shown as they were, searched."""
