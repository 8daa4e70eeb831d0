"""What can be found out about a run when it has run: its curvature, the landscape around it, how
robust it is."""
