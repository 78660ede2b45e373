"""What a simulation came to: figures, series over time, plots, on a terminal and as one HTML file."""
