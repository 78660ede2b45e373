"""The parts of jobs, what pools hold of them, and the order in which they wait."""
