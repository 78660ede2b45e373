"""Processes: clocks, locks of files, kinds of errors, cells that fail, threads that hang."""
