"""The queries of the API, the pages and the commands over the views."""
