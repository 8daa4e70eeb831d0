"""Federated learning that generalises."""
