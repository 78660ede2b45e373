"""Results of a simulation: figures, series over time, plots, on a terminal and as one HTML file."""
