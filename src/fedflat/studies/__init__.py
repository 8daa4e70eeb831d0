"""Runs as people ask for them: begun, stopped, taken up again, loaded."""
