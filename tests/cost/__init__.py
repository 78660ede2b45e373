"""What a cell costs in calls, which no load of the machine changes."""
