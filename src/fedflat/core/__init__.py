"""What the engine is made of: flat vectors, mail, stages, seeds."""
