"""Software that knows nothing of Paceline but its topics and schemas."""
