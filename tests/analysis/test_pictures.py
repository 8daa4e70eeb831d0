"""Pictures, confusion matrices and styles of runs, against plain PyTorch and numbers derived by
hand."""

from __future__ import annotations

import io
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score

import fedflat
from fedflat.analysis.analysis import Scope
from fedflat.analysis.kinds.confusion import ConfusionAnalysis
from fedflat.analysis.kinds.pictures import PicturesAnalysis
from fedflat.analysis.kinds.styles import StylesAnalysis
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.pictures import (
    choose_examples,
    encode_image,
)
from fedflat.analysis.styles import StyleGroups, project_to_plane
from fedflat.analysis.styles import choose_clusters as chosen_clusters
from fedflat.cli.main import main
from fedflat.client.describers.mean_style import MeanStyle
from fedflat.data.domains import Domains
from fedflat.data.examples import ClientData, Examples
from fedflat.errors import SettingError
from fedflat.report import collect

ON = (
    "street(towns=2, weather='sun', unseen_weather='night', unseen_towns=0, clients=4, examples=3, width=64, "
    "height=32, tests=8)"
)
QUICK: dict[str, Any] = {"rounds": 2, "clients_per_round": 2, "threads": 1}


def silent(done: float, total: float, what: str) -> None:
    assert 0 < done <= total


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "street"
    fedflat.run("fedavg", on=ON, model="small_unet(width=4)", lr=0.5, out=folder, **QUICK)
    return folder


def pixels(requests: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(b64decode(requests))))


def test_pictures_are_the_test_images_and_what_the_module_says(run: Path) -> None:
    found = PicturesAnalysis(2).analyse(LoadedRun(run), Scope(), silent)
    assert list(found.result["sets"]) == ["test", "unseen_weather"]
    assert found.result["names"][:2] == ["road", "pavement"]
    assert found.result["colours"][0] == [128, 64, 128]
    test = (
        fedflat.street(
            towns=2,
            weather="sun",
            unseen_weather="night",
            unseen_towns=0,
            clients=4,
            examples=3,
            width=64,
            height=32,
            tests=8,
        )
        .open(0)
        .test
    )
    module = fedflat.load(run)
    assert {one["domain"].split(",")[0] for one in found.result["sets"]["test"]} == {
        "town0",
        "town1",
    }
    for one in found.result["sets"]["test"]:
        place = one["place"]
        assert (
            pixels(one["image"]).tolist() == test.examples.inputs[place].permute(1, 2, 0).tolist()
        )
        truth = test.examples.targets[place]
        assert pixels(one["truth"]).tolist() == truth.tolist()
        with torch.no_grad():
            guess = module(test.batch(torch.tensor([place]), torch.float32).inputs)[0].argmax(0)
        assert pixels(one["mask"]).tolist() == guess.tolist()
        there, ious = truth != 255, []
        for c in truth[there].unique().tolist():
            both = ((guess == c) & (truth == c) & there).sum()
            ious.append(float(both / (((guess == c) | (truth == c)) & there).sum()))
        assert one["score"] == pytest.approx(sum(ious) / len(ious), abs=1e-6)
    assert not PicturesAnalysis(2).analyse(LoadedRun(run), Scope(), silent).fresh


def test_large_pictures_are_kept_small() -> None:
    """Means of squares of pixels, for the last ones of what is there."""
    image = torch.zeros(1, 2, 513)
    image[..., ::3], image[..., 512] = 90.0, 240.0
    small = pixels(encode_image(image))
    assert small.shape == (1, 171)
    assert set(small[0, :170].tolist()) == {30}
    assert small[0, 170] == round((90 + 240) / 3)


def test_examples_of_every_domain_are_chosen() -> None:
    """One of each; without domains as many as are asked for, spread evenly."""

    def data(domains: Domains | None) -> ClientData:
        examples = Examples(torch.zeros(12, 3, 2, 2), torch.zeros(12, 2, 2), 2, domains=domains)
        return ClientData(examples, torch.arange(12))

    assert choose_examples(data(None), 3, 12) == [2, 6, 10]
    assert choose_examples(data(None), 20, 12) == list(range(12))
    towns = Domains(("town",), tuple((name,) for name in "aaabbbbbcccc"))
    assert choose_examples(data(towns), 1, 12) == [1, 5, 10]
    many = Domains(("frame",), tuple((f"{i:02d}",) for i in range(12)))
    assert len(choose_examples(data(many), 1, 12)) == 12


def test_confusion_counts_what_is_taken_for_what(classes: Path, run: Path) -> None:
    found = ConfusionAnalysis().analyse(LoadedRun(classes), Scope(), silent).result
    test = fedflat.digits(clients=10).open(0).test
    batch = test.batch(torch.arange(len(test)), torch.float32)
    with torch.no_grad():
        guess = fedflat.load(classes)(batch.inputs).argmax(1)
    expected = [
        [int(((batch.targets == j) & (guess == i)).sum()) for i in range(10)] for j in range(10)
    ]
    assert found["sets"] == {"test": expected}
    assert found["names"] == [str(c) for c in range(10)]
    masks = (
        ConfusionAnalysis()
        .analyse(LoadedRun(run), Scope(examples=3, seed=1), silent)
        .result["sets"]
    )
    assert list(masks) == ["test", "unseen_weather"]
    held = [sum(map(sum, matrix)) for matrix in masks.values()]
    assert all(0 < count <= 3 * 64 * 32 for count in held)


def test_confusion_of_some_clients_data(classes: Path) -> None:
    found = (
        ConfusionAnalysis()
        .analyse(LoadedRun(classes), Scope(where="client:3"), silent)
        .result["sets"]
    )
    held = fedflat.digits(clients=10).open(0).data(3).counts(10).tolist()
    assert [sum(row) for row in found["client:3"]] == held


def test_points_in_the_plane() -> None:
    """A cross in three dimensions: its arms are the directions, and their squares the shares."""
    points = np.array([[3, 0, 1], [-3, 0, 1], [0, 2, 1], [0, -2, 1]], np.float64)
    places, shares = project_to_plane(points)
    assert np.abs(places).tolist() == pytest.approx(np.abs(points[:, :2]), abs=1e-12)
    assert shares == pytest.approx([9 / 13, 4 / 13])
    still, none = project_to_plane(np.ones((3, 5)))
    assert (still.tolist(), none) == ([[0.0, 0.0]] * 3, [0.0, 0.0])
    one, share = project_to_plane(np.array([[1.0], [3.0]]))
    assert one[:, 1].tolist() == [0.0, 0.0]
    assert share == [1.0, 0.0]


def test_styles_of_dark_and_bright_clients(tmp_path: Path) -> None:
    """Clients of two brightnesses lie in two heaps, and each shows its first image."""
    light = [20, 22, 24, 200, 202, 204]
    rng = np.random.default_rng(0)
    for client, level in enumerate(light):
        for kind in "ab":
            for place in range(5):  # every fifth is to test on
                folder = tmp_path / "data" / f"client{client}" / kind
                folder.mkdir(parents=True, exist_ok=True)
                image = (level + rng.integers(4, size=(4, 8, 3))).astype(np.uint8)
                Image.fromarray(image).save(folder / f"{place}.png")
    on = f"image_folder('{tmp_path / 'data'}', by_user())"
    fedflat.run("fedavg", on=on, model="logistic", out=tmp_path / "run", **QUICK)
    found = StylesAnalysis().analyse(LoadedRun(tmp_path / "run"), Scope(), silent).result
    at = [one["x"] for one in found["clients"]]
    assert len(at) == 6
    assert max(at[:3]) < min(at[3:]) or max(at[3:]) < min(at[:3])
    labels = [one["cluster"] for one in found["clients"]]
    assert set(labels[:3]).isdisjoint(labels[3:])
    assert found["shares"][0] > 0.99
    assert pixels(found["clients"][3]["image"]).shape == (4, 8, 3)
    assert found["aspect"] == 2.0


def test_styles_of_constant_images_are_one_cluster() -> None:
    """Nothing differs, nothing is divided by nothing."""
    x = torch.full((8, 3, 6, 6), 77, dtype=torch.uint8)
    on = fedflat.tensors(x, torch.arange(8) % 2, x[:2], torch.tensor([0, 1]), clients=4)
    fed = on.open(0)
    styles = np.stack(
        [MeanStyle().each(fed.data(k), torch.arange(2)).mean(0).flatten().numpy() for k in range(4)]
    )
    assert chosen_clusters(styles, 0) == StyleGroups([0, 0, 0, 0], 0.0)
    assert project_to_plane(styles)[0].tolist() == [[0.0, 0.0]] * 4


def test_styles_are_in_the_clusters_that_the_run_has_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LADD's clusters: two, by night and by day, where four would be found without the run."""
    on = (
        "street(towns=1, weather='sun,night', view='car', unseen_weather='', unseen_towns=0, clients=6, examples=10, "
        "width=32, height=16, tests=4)"
    )
    method = "ladd('all', groups=by_style(fewest=2, most=2, psi=mean_style(half=0)))"
    fedflat.run(
        method, on=on, model="small_unet(width=4)", out=tmp_path / "run", **{**QUICK, "rounds": 1}
    )
    assert main(["analyse", str(tmp_path / "run"), "--styles", "--quiet"]) == 0
    own = "the run's own, groups=by_style(fewest=2, most=2, psi=mean_style(half=0))"
    assert f"styles: 6 clients in 2 clusters ({own})" in capsys.readouterr().out
    (drawn,) = collect([tmp_path / "run"])["styles"]
    assert f"the run's own, groups={drawn['groups']}" == own
    labels = [one["cluster"] for one in drawn["clients"]]
    groups = json.loads((tmp_path / "run" / "groups.json").read_text())["groups"]
    assert labels == [
        next(place for place, group in enumerate(groups) if k in group) for k in range(6)
    ]
    night = ["night" in one["domain"] for one in drawn["clients"]]
    assert labels == [int(dark != night[0]) for dark in night]
    fed = fedflat.street(
        towns=1,
        weather="sun,night",
        view="car",
        unseen_weather="",
        unseen_towns=0,
        clients=6,
        examples=10,
        width=32,
        height=16,
        tests=4,
    ).open(0)
    sums = np.stack(
        [fed.data(k).examples.raw(fed.data(k).index).inputs.numpy() for k in range(6)]
    ).sum((3, 4))
    styles = sums.mean(
        1
    )  # frequency 0 is the sum of all pixels, and ten images count where eight would without
    assert drawn["silhouette"] == pytest.approx(silhouette_score(styles, labels), abs=1e-3)
    flat = np.array([(one["x"], one["y"]) for one in drawn["clients"]])
    assert np.abs(flat) == pytest.approx(np.abs(PCA(2).fit_transform(styles)), rel=1e-3, abs=1)


def test_from_the_command_line_to_the_page(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(run), "--pictures", "2", "--confusion", "--styles", "--quiet"]) == 0
    output = capsys.readouterr().out
    assert "pictures: 9 classes on test, unseen_weather" in output
    assert (
        "styles: 4 clients in 3 clusters (chosen by the silhouette, since the run has no groups), silhouette"
        in output
    )
    found = collect([run])
    assert found["problems"] == []
    assert all(found[kind] for kind in ("pictures", "confusion", "styles"))


def test_what_cannot_be_shown_is_reported(classes: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="pictures need a task that predicts masks"):
        PicturesAnalysis().analyse(LoadedRun(classes), Scope(), silent)
    fedflat.run("fedavg", on="diabetes(clients=3)", out=tmp_path / "run", **QUICK)
    with pytest.raises(SettingError, match="needs a task that predicts classes"):
        ConfusionAnalysis().analyse(LoadedRun(tmp_path / "run"), Scope(), silent)
    with pytest.raises(SettingError, match="only images have styles, found inputs of 10"):
        StylesAnalysis().analyse(LoadedRun(tmp_path / "run"), Scope(), silent)
