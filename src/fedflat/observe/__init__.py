"""What can be watched over the rounds of a run, without changing any number of it."""

from fedflat.observe.watching import WATCHERS, Watching, as_listener, watchers_of

__all__ = ["WATCHERS", "Watching", "as_listener", "watchers_of"]
