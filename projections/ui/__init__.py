"""The cell in a browser: pages rendered by the server, from the queries that the API uses."""
