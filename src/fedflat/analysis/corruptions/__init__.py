"""How well a model does on images that are noisy, blurred, snowed on or badly stored."""
