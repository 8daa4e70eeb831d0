"""Where clients train, how requests reach them, and where their states are kept."""
