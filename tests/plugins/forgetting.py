"""A registry without registered names, without a new process."""

from __future__ import annotations

import sys

from fedflat.registry import plugins
from fedflat.registry import specs as spelling


def forget() -> None:
    """Forget all names but fedflat's own, and where the others came from."""
    for name, entry in list(spelling._REGISTRY.items()):
        if entry.plugin is not None:
            del spelling._REGISTRY[name], spelling._NAMES[entry.make]
    for kept in (plugins._NAMED, plugins._FILES):
        kept.clear()
    for name in [name for name in sys.modules if name.startswith(("fedflat_plugin_", "extra_"))]:
        del sys.modules[name]
