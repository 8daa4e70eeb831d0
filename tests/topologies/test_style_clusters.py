"""Clusters by style: LADD's numbers, shared and private parts, and which model is evaluated on
which image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedflat as ff
from experiments.small import data
from fedflat.client.describers.mean_style import MeanStyle
from fedflat.core.flat import FlatModule, Model
from fedflat.data.examples import ClientData, Examples
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_cost import remarks
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.topologies.clusters import Clusters
from fedflat.topologies.groupings.by_style import ByStyle

S = torch.tensor(
    [[12, 200, 45, 90], [33, 7, 160, 80], [250, 61, 19, 140], [5, 77, 210, 128]], dtype=torch.uint8
)
T = torch.tensor(
    [[200, 10, 40, 90], [30, 80, 120, 60], [150, 20, 70, 110], [10, 220, 50, 130]],
    dtype=torch.uint8,
)
STYLE_OF_S = [
    [360.35121756, 186.35718392, 306.78494096],
    [163.11039207, 1517, 163.11039207],
    [306.78494096, 186.35718392, 360.35121756],
]


def holding(*images: Tensor) -> ClientData:
    """A client with pictures of one channel."""
    stacked = torch.stack(images)[:, None]
    return ClientData(Examples(stacked, torch.zeros(len(images), 4, 4)), torch.arange(len(images)))


def test_a_style_in_numbers() -> None:
    style = MeanStyle()
    np.testing.assert_allclose(style.each(holding(S), torch.arange(1))[0, 0], STYLE_OF_S, atol=6e-9)
    both = style.each(holding(S, T), torch.arange(2)).mean(0)
    assert float(both[0, 0, 0]) == pytest.approx(257.79648226, abs=6e-9)
    taller = torch.cat([S, torch.tensor([[99, 3, 150, 60]], dtype=torch.uint8)])
    found = style.each(
        ClientData(Examples(taller[None, None], torch.zeros(1)), torch.arange(1)), torch.arange(1)
    )
    assert found[0, 0, 0].tolist() == pytest.approx(
        [367.23565086, 190.08993424, 141.00150346], abs=6e-9
    )
    assert float(found[0, 0, 1, 1]) == 1829
    bright = ClientData(Examples((S / 255)[None, None].double(), torch.zeros(1)), torch.arange(1))
    np.testing.assert_allclose(style.each(bright, torch.arange(1))[0, 0], STYLE_OF_S, atol=1e-4)


def test_the_number_of_clusters_in_numbers() -> None:
    points = np.array([[0.0], [1], [10], [12], [30], [33], [50], [54], [80]])
    found = ByStyle().assign(points, [1] * 9, np.random.default_rng(0))
    assert found == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]


def test_an_image_is_of_the_nearest_cluster() -> None:
    """Constant images: their style is 16 times their grey in the middle, and nothing elsewhere."""
    styles = [
        MeanStyle().each(holding(torch.full((4, 4), grey, dtype=torch.uint8)), torch.arange(1))[0]
        for grey in (10, 20, 100, 200)
    ]
    images = [torch.full((4, 4), grey, dtype=torch.uint8) for grey in (0, 57, 58, 149, 151, 255)]
    assert ByStyle().nearest(styles, [[0, 1], [2], [3]], holding(*images)).tolist() == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]


def test_shared_and_own_parts_in_numbers() -> None:
    """Ten, thirty and twenty examples in clusters 0, 0 and 1 of three; Phi comes first in the
    vector."""
    population = prepare(world("style_clusters(3)")).server.population
    own = {
        "cluster0": ((10 * 1 + 30 * 2) / 40, 17.5),
        "cluster1": (4.0, 30.0),
        "cluster2": (0.0, 7.0),
    }
    layout = FlatModule(
        nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)), dtype=torch.float64
    )
    population = replace(population, layout=layout.layout)
    models = {
        name: Model(torch.tensor(both, dtype=torch.float64), torch.zeros(0))
        for name, both in own.items()
    }
    merged = parse("style_clusters(3)", "topology").merge(
        population, 0, models, {"cluster0": 40, "cluster1": 20}
    )
    assert [model.params.tolist() for model in merged.values()] == [
        pytest.approx([2.5, 17.5]),
        pytest.approx([2.5, 30.0]),
        pytest.approx([2.5, 7.0]),
    ]


HEADS = {
    "small_unet()": (
        "up2.conv.weight",
        "up1.conv.weight",
        "up0.conv.weight",
        "classify.weight",
        "classify.bias",
    ),
    "deeplabv3(width=0.25)": (
        "aspp.views.0.",
        "aspp.mean.conv.",
        "aspp.project.",
        "head.conv.",
        "head.scores.",
    ),
}


@pytest.mark.parametrize("model", HEADS)
def test_the_convolutions_of_the_head_are_a_clusters_own(model: str) -> None:
    """Its normalisations, and everything before it, are shared, with all running statistics."""
    module = ff.parse(model, "model").build((3, 64, 64), 5)
    layout = FlatModule(module).layout
    params, buffers = Clusters(2, shared="trunk").common(layout)
    own = [name for name, place in layout.slices.items() if not params[place].any()]
    convolutions = {
        f"{name}.{kind}"
        for name, part in module.named_modules()
        if isinstance(part, nn.Conv2d)
        for kind in ("weight", "bias")
    }
    assert set(own) <= convolutions
    assert all(any(name.startswith(start) for name in own) for start in HEADS[model])
    assert all(
        name.startswith(tuple(start.split(".")[0] for start in HEADS[model])) for name in own
    )
    assert buffers.all()


def test_a_network_that_says_nothing_has_its_last_layer_for_a_head() -> None:
    layout = FlatModule(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))).layout
    assert layout.head == ("2.weight", "2.bias")


STREETS = (20, 25, 30, 120, 125, 220, 225, 230)


def streets(*greys: int) -> list[tuple[Tensor, Tensor]]:
    """Four pictures of each grey, which are all road on the left and sky on the right."""
    rng = torch.Generator().manual_seed(0)
    mask = (torch.arange(8) >= 4).long().expand(8, 8)
    pairs = []
    for grey in greys:
        x = grey + 20 * mask + torch.randint(6, (4, 3, 8, 8), generator=rng)
        pairs.append((x.to(torch.uint8), mask.expand(4, 8, 8).clone()))
    return pairs


def world(
    topology: str | None,
    method: str = "self_training(kd=1.0, sure=0.4, t_start=2)",
    *,
    greys: Sequence[int] = STREETS,
    seen: Sequence[int] = (),
    **more: Any,
) -> Experiment:
    """Eight clients in dark, grey and bright streets; the test images are like those of every
    second client, or have the greys ``seen``."""
    pairs = streets(*greys)
    headline = streets(*seen) if seen else pairs[::2]
    tests = torch.cat([x for x, _ in headline]), torch.cat([y for _, y in headline])
    return ff.experiment(
        method,
        clients_of(pairs, test=tests, classes=2),
        rounds=3,
        clients_per_round=3,
        batch_size=2,
        lr=0.05,
        eval_every=1,
        model=lambda: ff.small_unet(width=4).build((3, 8, 8), 2),
        topology=topology,
        seed=1,
        task="segmentation()",
        **more,
    )


STYLED = "style_clusters(by_style(fewest=2, most=5))"


class RecordingRunFolder(RunFolder):
    """Keeps the server's models."""

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        self.models = run.models


def final_models(exp: Experiment) -> tuple[Any, dict[str, Model]]:
    """The run, and the server's models at its end."""
    run_folder = RecordingRunFolder()
    return train(exp, run_folder=run_folder, executor=InProcess(threads=1)), run_folder.models


def test_an_image_is_judged_by_the_cluster_of_the_nearest_mean_and_not_of_the_nearest_client() -> (
    None
):
    """Clients of grey 10, 30 and 50, and one of 200. The middle between the means 30 and 200 is
    115.

    Greys 117 and 121 are nearer to 200 than to 30, but nearer to the client of grey 50 than to that
    of 200.
    """
    exp = world(
        "style_clusters(by_style(fewest=2, most=2), shared='nothing')",
        greys=(10, 30, 50, 200),
        seen=(113, 117, 121, 130),
    )
    setup = prepared_run(exp)
    assert list(setup.server.slots.values()) == [(0, 1, 2), (3,)]
    route = exp.topology.route(setup.server.population, setup.fed.test)
    assert route is not None
    assert route.tolist() == [0] * 4 + [1] * 12
    result, models = final_models(exp)
    right, both = scores(exp, [models["cluster0"]] * 4 + [models["cluster1"]] * 12)
    assert result.rows[-1]["models"]["routed"]["miou"] == pytest.approx(
        float((right / both).mean()), rel=1e-6
    )


def scores(exp: Experiment, models: Sequence[Model]) -> tuple[Tensor, Tensor]:
    """For each class the pixels in the intersection and in the union, each test image predicted by
    its own model."""
    learner, fed = prepare(exp).job.learner, prepare(exp).fed
    right, both = torch.zeros(2), torch.zeros(2)
    for place, model in enumerate(models):
        batch = fed.test.batch(torch.tensor([place]), torch.float32)
        found = learner.output_of(model, batch.inputs).argmax(1)
        for label in (0, 1):
            right[label] += ((found == label) & (batch.targets == label)).sum()
            both[label] += ((found == label) | (batch.targets == label)).sum()
    return right, both


def test_every_image_is_judged_by_its_own_clusters_model() -> None:
    exp = world(STYLED)
    result, models = final_models(exp)
    assert list(models) == ["cluster0", "cluster1", "cluster2"]
    slots = (
        [0] * 8 + [1] * 4 + [2] * 4
    )  # clients 0 and 2 are dark, 4 is grey, 6 is bright; four images each
    right, both = scores(exp, [list(models.values())[slot] for slot in slots])
    row = result.rows[-1]
    assert row["model"] == "routed"
    assert (
        row["miou"]
        == row["models"]["routed"]["miou"]
        == pytest.approx(float((right / both).mean()), rel=1e-6)
    )
    assert list(row["models"]) == ["cluster0", "cluster1", "cluster2", "server", "routed"]


def test_the_model_that_stands_for_all_is_the_plain_mean_of_those_asked_last() -> None:
    exp = world(STYLED.replace("))", "), shared='nothing')"))
    result, models = final_models(exp)
    setup = prepared_run(exp)
    asked = setup.server.select(exp.rounds - 1)
    assert 1 < len(asked) <= 3
    mean = torch.stack([models[slot].params for slot in asked]).mean(0)
    assert result.model is not None
    torch.testing.assert_close(result.model.params, mean)


def prepared_run(exp: Experiment) -> RunSetup:
    """The run once clients have sent their styles."""
    return collect_descriptions(prepare(exp), RunFolder(), InProcess(threads=1), lambda *_: {})


def test_averages_of_the_model_that_stands_for_all_are_what_is_reported() -> None:
    result, _ = final_models(world(STYLED, "self_training(sure=0.4) + sam(rho=0.01) + wima(2)"))
    assert result.rows[-1]["model"] == "wima"
    assert list(result.rows[-1]["models"])[-3:] == ["server", "routed", "wima"]


@pytest.mark.parametrize("parts", ["cls", "all", "nothing"])
def test_ladd_is_self_training_in_clusters(parts: str) -> None:
    """The same bits, by one text or by two."""
    shared = {"cls": "trunk", "all": "nothing", "nothing": "all"}[parts]
    more = "kd=1.0, sure=0.4, t_start=2"
    topology = f"style_clusters(by_style(fewest=2, most=5), shared='{shared}')"
    one, own = final_models(
        world(None, f"ladd('{parts}', {more}, groups=by_style(fewest=2, most=5))")
    )
    two, others = final_models(world(topology, f"self_training({more})"))
    assert all(torch.equal(own[slot].params, others[slot].params) for slot in own)
    assert one.rows[-1]["models"] == two.rows[-1]["models"]


def test_one_cluster_with_everything_shared_is_self_training() -> None:
    """Bit for bit."""
    more = "kd=1.0, sure=0.4, t_start=2"
    one, _ = final_models(world(None, f"ladd('nothing', {more}, groups=1)"))
    two, _ = final_models(world(None, f"self_training({more})"))
    assert one.model is not None
    assert two.model is not None
    assert torch.equal(one.model.params, two.model.params)
    assert torch.equal(one.model.buffers, two.model.buffers)
    alike = [
        [
            {
                k: v
                for k, v in row.items()
                if k not in ("training", "seconds", "evaluation", "models", "model")
            }
            for row in run.rows
        ]
        for run in (one, two)
    ]
    assert alike[0] == alike[1]


def test_styles_are_counted_and_what_they_reveal_is_reported() -> None:
    exp = world(STYLED)
    assert any(
        "mean_style" in text and "colours and light" in text for text in remarks(prepare(exp))
    )
    setup = prepared_run(exp)
    assert setup.initial_cost.up == 8 * 27 * 8
    assert setup.initial_cost.down == 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match="a style needs images, found inputs of shape"):
        prepare(ff.experiment("ladd()", data(), rounds=1, clients_per_round=2, model="mlp"))
    with pytest.raises(SettingError, match="at least 9 clusters were asked for, but 8 clients"):
        prepared_run(world("style_clusters(by_style(fewest=9))"))
    with pytest.raises(
        SettingError, match=r"psi must be a style, such as mean_style\(half=1\), found 3"
    ):
        parse("by_style(psi=3)", "grouping")
    with pytest.raises(
        SettingError, match=r"size must be height and width, as \[512, 1024\], found 5"
    ):
        parse("mean_style(size=5)", "describer")
    with pytest.raises(
        SettingError, match="parts must be 'cls' or 'all' or 'nothing', found 'head'"
    ):
        parse("ladd('head')", "method")
