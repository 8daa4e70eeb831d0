"""The devices of this machine, and how worker processes are divided among several of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch

from fedflat.errors import SettingError, shown

KINDS = ("cpu", "cuda", "mps")


def available() -> list[str]:
    """The devices of this machine."""
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    metal = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *(f"cuda:{number}" for number in gpus), *metal]


def free_memory(device: str) -> int | None:
    """Free bytes of a GPU's own memory. None for other devices, whose memory is that of the machine."""
    if torch.device(device).type != "cuda":
        return None
    free: int = torch.cuda.mem_get_info(device)[0]
    return free


def check_device(owner: str, device: str) -> None:
    """Refuse a device that this machine does not have; ``owner`` is the first word of the message."""
    kind, _, number = device.partition(":")
    if kind not in KINDS or (number and not number.isdecimal()):
        raise SettingError(
            f"{owner}: device {shown(device)} cannot be read. Write cpu, cuda, cuda:1 or mps."
        )
    here = available()
    found = [one for one in here if one == device or (one.startswith("cuda:") and device == "cuda")]
    if not found and device != "cpu:0":
        raise SettingError(
            f"{owner}: this machine has no device {device!r}. It has {', '.join(here)}. Use one of "
            "these."
        )


def read_devices(owner: str, text: str) -> tuple[str, ...]:
    """The devices in a text such as "0,1". A number is that of a CUDA device.

    >>> read_devices("run", "0, 1"), read_devices("run", "cpu,cpu")
    (('cuda:0', 'cuda:1'), ('cpu', 'cpu'))
    """
    if not isinstance(text, str):
        raise SettingError(
            f"{owner}: devices must be a text such as '0,1' or 'cpu,cpu', found {shown(text)}."
        )
    words = [word.strip() for word in text.split(",")]
    devices = tuple(f"cuda:{word}" if word.isdecimal() else word for word in words)
    for device, word in zip(devices, words, strict=True):
        kind, _, number = device.partition(":")
        if kind not in KINDS or (number and not number.isdecimal()):
            raise SettingError(
                f"{owner}: device {shown(word)} in devices={shown(text)} cannot be read. Write "
                "numbers of CUDA devices, such as '0,1', or names, such as 'cpu,cpu'."
            )
    if len({device.partition(":")[0] for device in devices}) > 1:
        raise SettingError(
            f"{owner}: devices={shown(text)} mixes kinds of devices, between which the numbers "
            "differ by rounding. Use devices of one kind."
        )
    return devices


def check_workers(owner: str, workers: int, devices: Sequence[str]) -> None:
    """Refuse devices that no worker would use."""
    if workers < len(devices):
        raise SettingError(
            f"{owner}: {len(devices)} devices need at least as many workers, found {workers}. Use "
            f"workers={len(devices)}, or fewer devices."
        )


def worker_devices(here: str, text: str | None) -> tuple[str, ...]:
    """The devices of worker processes, in turn: those named, or that of the run, ``here``."""
    if text is None:
        return (here,)
    found = read_devices("devices", text)
    for device in found:
        check_device("devices", device)
    if torch.device(found[0]).type != torch.device(here).type:
        raise SettingError(
            f"devices: the workers are to use {shown(text)}, and the run uses the device {here!r}. "
            f"Both must be of one kind. Set --device {found[0]}."
        )
    return found


def least_used(devices: Sequence[str], used: Iterable[str | None]) -> str:
    """The device for the next worker: the first of those with the fewest workers.

    >>> least_used(["cuda:0", "cuda:1"], ["cuda:0"])
    'cuda:1'
    """
    counts = Counter(used)
    # A device that is named twice has room for twice as many workers.
    places = Counter(devices)
    return min(dict.fromkeys(devices), key=lambda device: counts[device] / places[device])
