"""A cell in virtual time: scenarios, faults, and a second opinion on what it did."""
