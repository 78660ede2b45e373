"""The HTTP API over the views. Its modules take FastAPI; whoever needs only rows imports `projections.views.reader`;
whoever answers with no more than a problem, `projections.api.problems`.
"""
