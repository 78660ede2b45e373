"""What machines are made of: tables with a state hash, columns over tasks, settings of the cell. Pure."""
