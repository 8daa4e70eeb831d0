"""What can be watched over the rounds of a run, without changing any number of it."""

from fedflat.observe.watching import WATCHERS, Watching, watchers_of

__all__ = ["WATCHERS", "Watching", "watchers_of"]
