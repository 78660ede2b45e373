"""`python -m paceline`, the same as the command."""

from paceline.main import main

main()
