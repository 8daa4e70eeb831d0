"""Progress, tables, curves and pages in a notebook."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fedflat as ff
from fedflat.errors import SettingError
from fedflat.experiments.console import NotebookReporter, in_notebook

DATA = ff.digits(ff.lda(0.5), clients=6)
QUICK: dict[str, Any] = {"on": DATA, "model": "logistic", "rounds": 2, "clients_per_round": 2}


class Shown:
    """Stands for the notebook's display; keeps everything it was given."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def __call__(self, one: Any, display_id: bool) -> Shown:
        assert display_id
        assert not self.texts, "one display, which is updated"
        self.update(one)
        return self

    def update(self, one: Any) -> None:
        self.texts.append((repr(one), one._repr_html_()))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> ff.Results:
    out = tmp_path_factory.mktemp("study") / "runs"
    return ff.compare(["fedavg", "fedsam"], seeds=2, out=out, quiet=True, **QUICK)


def test_progress_is_one_display_that_is_updated() -> None:
    shown = Shown()
    with NotebookReporter(shown) as console:
        ff.compare(["fedavg", "fedsam"], reporter=console.reporter, **QUICK)
    text, html = shown.texts[-1]
    first, second = text.splitlines()
    assert first.startswith("[1/2] fedavg(), seed 0: round 2/2  test ")
    assert second.startswith("[2/2] fedsam(), seed 0: round 2/2  test ")
    assert "study" not in text
    assert html.count("<progress max='2' value='2'>") == 2
    assert "\x1b" not in text + html
    assert not in_notebook()


def test_tables_and_curves(study: ff.Results, tmp_path: Path) -> None:
    shown = study.table(labels={"fedsam(...)": "FedSAM"})
    assert repr(shown) == str(shown)
    assert "<td>FedSAM</td>" in shown._repr_html_()
    assert r"\begin{tabular}" in study.table("latex")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert study.plot()._repr_png_().startswith(b"\x89PNG")
    text = study.plot("loss", labels={"fedsam": "FedSAM"}).save(tmp_path / "x.svg").read_text()
    assert ">FedSAM<" in text
    assert ">loss<" in text
    assert ">accuracy, %<" in study[0].plot().save(tmp_path / "y.svg").read_text()
    with pytest.raises(SettingError, match="no evaluation has a measurement 'lose'"):
        study.plot("lose")
    with pytest.raises(SettingError, match=r"as \.pdf, \.svg or \.png, found 'x\.gif'"):
        study.plot().save(tmp_path / "x.gif")


def test_a_result_is_analysed_where_its_folder_is(study: ff.Results) -> None:
    found = study[0].analyse(curvature={"k": 2}, examples=50)
    assert study[0].folder is not None
    assert len(found["curvature"]["eigenvalues"]) == 2
    assert [path.stem for path in (study[0].folder / "analysis").iterdir()] != []
    assert ff.analyse(study[0].folder, curvature={"k": 2}, examples=50) == found
    with pytest.raises(SettingError, match="no analysis 'curvatur'"):
        study[0].analyse(curvatur=True)


def test_a_result_in_memory_is_analysed_like_one_in_a_folder(tmp_path: Path) -> None:
    wanted: dict[str, Any] = {"curvature": {"k": 2}, "surface": {"points": 3}, "confusion": True}
    wanted["partition"] = True
    for method in ("fedavg", "fedsam + swa(start=0.5)"):
        memory = ff.run(method, quiet=True, **QUICK)
        stored = ff.run(method, quiet=True, out=tmp_path / method[:6], **QUICK)
        assert memory.folder is None
        assert memory.analyse(examples=50, **wanted) == stored.analyse(examples=50, **wanted)
    server = memory.analyse(curvature={"k": 2}, examples=50, model="server")
    assert server == stored.analyse(curvature={"k": 2}, examples=50, model="server")
    assert server != memory.analyse(curvature={"k": 2}, examples=50)


def test_own_data_and_module_are_analysed_in_memory() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=generator)
    y = (x[:, 0] > 0).long()
    on = ff.tensors(x[:40], y[:40], x[40:], y[40:], clients=3)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    result = ff.run("fedavg", on=on, model=net, rounds=1, clients_per_round=2, quiet=True)
    found = result.analyse(curvature={"k": 1})["curvature"]
    module = result.module().double()
    names = [name for name, _ in module.named_parameters()]
    start = torch.cat([p.detach().flatten() for p in module.parameters()])

    def loss(flat: torch.Tensor) -> torch.Tensor:
        parts = flat.split([p.numel() for p in module.parameters()])
        own = {n: q.view_as(module.get_parameter(n)) for n, q in zip(names, parts, strict=True)}
        return torch.nn.functional.cross_entropy(
            torch.func.functional_call(module, own, (x[40:].double(),)), y[40:]
        )

    hessian = torch.autograd.functional.hessian(loss, start)
    expected = float(torch.linalg.eigvalsh(hessian)[-1])
    assert found["eigenvalues"][0] == pytest.approx(expected, rel=1e-3)


def test_what_a_result_in_memory_lacks_is_named() -> None:
    memory = ff.run("fedavg", quiet=True, **QUICK)
    with pytest.raises(SettingError, match=r"needs the state of server and clients.*out='runs/"):
        memory.analyse(local_global=True)
    with pytest.raises(SettingError, match="has no model 'swa', only server"):
        memory.analyse(curvature=True, model="swa")
    with pytest.raises(SettingError, match="numbers only"):
        replace(memory, models=None).analyse(curvature=True)


def test_the_page_inside_a_notebook(study: ff.Results, tmp_path: Path) -> None:
    """Also after the package of that name was imported."""
    shown = ff.report(study, labels={"fedsam": "FedSAM"})
    assert "fedflat.report" in sys.modules
    again = ff.report(study[0], study[1:])
    assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert "FedSAM" in repr(shown)
    assert repr(again).count("fedsam()") == 1
    assert shown.save(tmp_path / "a" / "page.html").read_text() == shown.page
    with pytest.raises(SettingError, match="in memory only"):
        ff.report(ff.run("fedavg", quiet=True, **QUICK))


def test_data_show_clients_and_classes(tmp_path: Path) -> None:
    shown = DATA.show(seed=3)
    lines = repr(shown).splitlines()
    head = next(line for line in lines if line.startswith("client "))
    assert head.split() == ["client", *map(str, range(10)), "all"]
    counts = DATA.open(3).data(5).counts(10).tolist()
    assert lines[-1].split() == ["5", *(str(n or ".") for n in counts), str(sum(counts))]
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    text = shown.save(tmp_path / "x.svg").read_text()
    assert text.count("<image ") == 10  # one sample of each class
    assert ">client<" in text


RUN = 'model="logistic", rounds=2, clients_per_round=2'
HTML, PNG = ["text/html", "text/plain"], ["image/png", "text/plain"]
CELLS: list[tuple[str, list[list[str]]]] = [
    ("import fedflat as ff; data = ff.digits(ff.lda(0.5), clients=6)", []),
    ("data.show()", [PNG]),
    (f'result = ff.run("fedavg", on=data, {RUN})', [HTML]),
    ("result", [HTML]),
    ("result.plot()", [PNG]),
    ('result.analyse(curvature={"k": 1}, examples=20)', [["text/plain"]]),
    (f'study = ff.compare(["fedavg", "fedsam"], on=data, out="runs", {RUN})', [HTML]),
    ("study.plot()", [PNG]),
    ("study.table()", [HTML]),
    ("ff.report(study)", [HTML]),
    ('study[0].analyse(curvature={"k": 1}, examples=20)', [["text/plain"]]),
    (f'ff.sweep("fedsam(rho={{0.05, 0.1}})", on=data, {RUN})', [HTML, HTML]),
    (
        f'ff.run("fedavg", on=data, {RUN}, on_round_end=lambda end: True).status',
        [HTML, ["text/plain"]],
    ),
]
"""Cells, and the kinds of what the notebook shows below each."""


@pytest.mark.slow
def test_a_real_notebook(tmp_path: Path) -> None:
    """Its file holds the display of each cell, and no escape codes."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code, _ in CELLS])
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=600, resources=resources).execute()
    nbformat.write(book, tmp_path / "book.ipynb")
    saved = (tmp_path / "book.ipynb").read_text(encoding="utf-8")
    for cell, (code, kinds) in zip(nbformat.reads(saved, 4).cells, CELLS, strict=True):
        assert [sorted(one.get("data", one)) for one in cell.outputs] == kinds, code
    assert book.cells[-1].outputs[-1]["data"]["text/plain"] == "'early'"
    assert "\\u001b" not in saved
    assert "\x1b" not in saved
