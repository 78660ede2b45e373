"""A second pair of eyes: replays the rounds of a cell, and signs heads of its log."""
