"""Whether entitlements are fair, judged from the numbers alone, and how one came about."""
