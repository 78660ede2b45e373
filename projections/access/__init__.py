"""Identities of requests, the rule of the API, and the parts that limited readers see."""
