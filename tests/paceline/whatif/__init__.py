"""What-if: branches of history."""
