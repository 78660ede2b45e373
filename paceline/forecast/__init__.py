"""Forecasts of when waiting jobs start: a simulation ahead, made right by what came of earlier ones (decision 128)."""
