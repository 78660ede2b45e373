"""Reports: reasons of what waits, and numbers of pools."""
