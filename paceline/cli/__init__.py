"""The `paceline` command: its commands, the demo, the bars of progress, the reference made of its help."""
