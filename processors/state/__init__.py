"""Building blocks of machines: tables with a state hash, columns over tasks, settings of the cell. Pure."""
