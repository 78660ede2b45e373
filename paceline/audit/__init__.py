"""The audit of who was allowed what: a second reading of the log, which shares no rule with the API."""
