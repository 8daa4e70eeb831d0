"""Sweeps: several values of settings, and the choice between them by the validation set."""
