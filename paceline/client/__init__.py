"""The typed client of the API, and how it finds a cell. Imports nothing else of Paceline."""
