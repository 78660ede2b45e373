"""What tests of several folders use. What helps the tests of one folder stands beside them."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout."""
WORKED = ROOT / "tests" / "processors" / "cases"
"""Worked cases of an earlier scheduler."""
SCENARIOS = ROOT / "tests" / "scenarios"
