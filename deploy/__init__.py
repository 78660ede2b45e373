"""What it takes to run the parts of Paceline as processes of their own; here on one machine."""
