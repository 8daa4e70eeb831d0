"""The flame graph and the file for other tools, from samples made by hand."""

from __future__ import annotations

import json
import re

from fedflat.profiling.flame import page, speedscope, tree
from fedflat.profiling.profile import Profile
from fedflat.profiling.rooms import ROOMS
from fedflat.profiling.sampler import Frame, Samples, Seen

MAIN, TRAIN = Frame("__main__", "<module>"), Frame("fedflat.running.train", "train")
FOLD, ADD = Frame("fedflat.engine.mail", "fold"), Frame("torch", "</script><b>&add")
SERVE = Frame("fedflat.executors.worker", "_serve")
HERE = Samples(
    {(MAIN, TRAIN): Seen(1, 1.0), (MAIN, TRAIN, FOLD): Seen(2, 2.0), (MAIN, TRAIN, FOLD, ADD): Seen(3, 4.0)}, 0.01
)
PROFILE = Profile(HERE, (Samples({(SERVE,): Seen(2, 0.5)}, 0.0), Samples({(SERVE,): Seen(2, 0.0005)}, 0.0)), rounds=2)


def test_boxes() -> None:
    """Each as wide as everything in it; what is around everything is left out; too small to be seen is not drawn."""
    aggregation, other, waiting = (ROOMS.index(room) for room in ("aggregation", "other", "waiting"))
    adding = [str(ADD), aggregation, 4.0, []]
    training = [str(TRAIN), other, 7.0, [[str(FOLD), aggregation, 6.0, [adding]]]]
    name, room, seconds, processes = tree(PROFILE).boxes(0.001)
    assert (name, room, seconds) == ("everything", None, 7.5005)
    assert processes == [
        ["this process", None, 7.0, [training]],
        ["worker 1", None, 0.5, [[str(SERVE), waiting, 0.5, []]]],
    ]


def embedded(text: str) -> dict[str, object]:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_the_page_stands_alone() -> None:
    text = page(PROFILE, "here & <there>")
    assert not re.search(r"https?:|//|\bimport\b|@import|url\(|fetch\(", re.sub(r"<!DOCTYPE html>", "", text))
    assert re.findall(r'(?:src|href)="([^"]*)"', text) == ["data:,"]
    assert "default-src 'none'" in text
    assert "<title>Profile of here &amp; &lt;there&gt; · fedflat</title>" in text
    assert "prefers-color-scheme: dark" in text


def test_a_name_cannot_break_the_page() -> None:
    text = page(PROFILE, "x")
    assert "<b>&add" not in text
    assert embedded(text)["rooms"] == list(ROOMS)
    assert str(ADD) in json.dumps(embedded(text)["root"])


def test_the_page_tells_the_rooms_without_its_script() -> None:
    text = page(PROFILE, "x")
    rows = dict(re.findall(r'<th scope="row"><span class="room room\d"></span>(.*?)</th>(.*?)</tr>', text))
    assert re.findall("<td>(.*?)</td>", rows["aggregation"]) == ["6.00", "85.7", "3.0000", "0.00", "0.0", "0.0000"]
    assert set(rows) == {"aggregation", "waiting", "other"}
    assert "all workers together" in text
    assert "all workers together" not in page(Profile(HERE), "x")


def test_every_room_has_its_colour() -> None:
    text = page(PROFILE, "x")
    for place in range(len(ROOMS)):
        assert text.count(f"--r{place}: #") == 2, "one in light, one in dark"
        assert f".room{place} {{ background: var(--r{place}); }}" in text


def test_speedscope() -> None:
    found = json.loads(speedscope(PROFILE, "x"))
    frames = [frame["name"] for frame in found["shared"]["frames"]]
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert len(set(frames)) == len(frames) == 5
    assert [one["name"] for one in found["profiles"]] == ["this process", "worker 1", "worker 2"]
    here = found["profiles"][0]
    assert (here["type"], here["unit"], here["startValue"], here["endValue"]) == ("sampled", "seconds", 0, 7.0)
    stacks = [tuple(frames[place] for place in sample) for sample in here["samples"]]
    true = {tuple(map(str, stack)): seen.seconds for stack, seen in HERE.stacks.items()}
    assert dict(zip(stacks, here["weights"], strict=True)) == true


def test_an_empty_profile_is_a_page_too() -> None:
    nothing = Profile(Samples({}, 0.0))
    assert "0 samples were taken" in page(nothing, "x")
    assert json.loads(speedscope(nothing, "x"))["profiles"][0]["samples"] == []
