"""The optional packages of a deployment."""

from __future__ import annotations

from importlib.util import find_spec

from fedflat.errors import SettingError

PACKAGES = ("nvflare", "cryptography", "grpc")


def missing_packages() -> list[str]:
    """The packages of the extra that are not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


def require_extra() -> None:
    """Refuse to go on without the packages of the extra."""
    missing = missing_packages()
    if missing:
        raise SettingError(
            f"deploy: {' and '.join(missing)} must be installed for it. Install the extra: "
            "pip install 'fedflat[deploy]'."
        )
