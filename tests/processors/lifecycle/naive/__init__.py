"""A job as one would write it down to explain it: an object for each instance, all of them looked at each time.

It hears what the machine hears. That is noted, then decided on until nothing is left to decide, by the rules of
docs/task-life.md and decision 037.
"""
