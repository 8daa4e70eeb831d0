"""Who talks to whom: a page for each topology."""
