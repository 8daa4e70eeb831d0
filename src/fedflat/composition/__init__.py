"""Methods put together, and what they cost."""
