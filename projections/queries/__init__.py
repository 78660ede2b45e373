"""What API and commands read of the views."""
