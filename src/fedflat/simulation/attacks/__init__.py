"""Attacks on a run: clients that lie about their data, and clients that look for what others
hold."""
