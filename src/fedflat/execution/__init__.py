"""Where visits happen, and where clients' memories are kept meanwhile."""
