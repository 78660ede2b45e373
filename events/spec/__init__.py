"""Specs as users write them, of jobs, pools and settings: pydantic models of JSON and YAML."""
