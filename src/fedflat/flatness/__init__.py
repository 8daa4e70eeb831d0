"""How flat the ground is on which a model stands: its curvature and sharpness, and the landscape
around it."""
