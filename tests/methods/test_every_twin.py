"""Every method has a second implementation: a literal twin, or plain loops in a test of its own."""

from __future__ import annotations

from pathlib import Path

from fedflat.registry.specs import registered

TESTS = Path(__file__).parents[1]
TWINS = {
    "adabest": "adabest",
    "adagrad": "fedopt",
    "adam": "fedopt",
    "asam": "fedasam",
    "bfloat16": "compression",
    "int8": "compression",
    "top_k": "compression",
    "dp": "dp_fedsam",
    "dp_fedsam": "dp_fedsam",
    "ema": "ema",
    "fedacg": "fedacg",
    "fedadagrad": "fedopt",
    "fedadam": "fedopt",
    "fedala": "fedala",
    "fedasam": "fedasam",
    "fedavg": "fedavg",
    "fedavgm": "fedopt",
    "fedbn": "fedbn",
    "fedcm": "fedcm",
    "fedcr": "fedcr",
    "feddc": "feddc",
    "feddyn": "feddyn",
    "fedfsa": "fedfsa",
    "feddecorr": "feddecorr",
    "fedexp": "fedexp",
    "fedgmt": "fedgmt",
    "fedlc": "logit_calibration",
    "fedntd": "fedntd",
    "fedrs": "logit_calibration",
    "fedsol": "fedsol",
    "fedtoga": "fedtoga",
    "fedwmsam": "fedwmsam",
    "moon": "moon",
    "fedgamma": "fedgamma",
    "fedinit": "fedinit",
    "fedlesam_d": "fedlesam",
    "fedlesam_s": "fedlesam",
    "fedmoswa": "fedswa",
    "fednova": "fednova",
    "fednsam": "fednsam",
    "fedswa": "fedswa",
    "fedgloss": "fedgloss",
    "fedlesam": "fedlesam",
    "fedprox": "fedprox",
    "fedsam": "fedsam",
    "fedsmoo": "fedsmoo",
    "fedspeed": "fedspeed",
    "fedyogi": "fedopt",
    "fsa": "fedfsa",
    "last_sam": "last_sam",
    "layerwise_sam": "layerwise_sam",
    "local_adam": "local_adam",
    "local_adamw": "local_adam",
    "man": "man",
    "mime": "mime",
    "mimelite": "mime",
    "mofedsam": "mofedsam",
    "naive_fedgloss": "naive_fedgloss",
    "prox": "fedprox",
    "sam": "fedsam",
    "cfsi": "styles",
    "lab": "styles",
    "scaffold": "scaffold",
    "ladd": "ladd",
    "self_training": "ladd",
    "server_momentum": "fedopt",
    "server_sgd": "fedavg",
    "silobn": "fedbn",
    "swa": "swa",
    "wima": "wima",
    "yogi": "fedopt",
    "active_clients": "feddyn",
    "all_clients": "feddyn",
    "clip": "problem",
}
"""The file in ``literal/``; the means of clients' models are fields of a trace there, the clip is
in the local step."""
ALONE = {
    "fedcg": "methods/test_fedcg_twin.py",
    "domain_models": "methods/test_domain_labels.py",
    "ifca": "methods/test_domain_labels.py",
    "mcd": "methods/test_mcd.py",
    "fedvc": "methods/test_fedvc.py",
    "fedseq": "topologies/test_texts.py",
    "fedseq2par": "topologies/test_texts.py",
    "fedcyclic": "topologies/test_texts.py",
    "hfl": "topologies/test_texts.py",
    "fedasyncseq": "topologies/test_texts.py",
    "fedasync": "topologies/test_texts.py",
    "fedbuff": "topologies/test_texts.py",
    "centralised": "methods/test_centralised.py",
    "cutout": "client/test_batch_transforms.py",
    "mixup": "client/test_batch_transforms.py",
    "fedavg_ft": "methods/test_personal.py",
    "personal": "methods/test_personal.py",
    "krum": "server/test_aggregators.py",
    "median": "server/test_aggregators.py",
    "norm_clip": "server/test_aggregators.py",
    "trimmed_mean": "server/test_aggregators.py",
    "chain": "test_method.py",
    "poly_rate": "client/test_poly_rate.py",
}
"""Tests of their own, which follow them with plain loops, or hold words to topologies that have
twins."""


def test_every_method_has_a_second_implementation() -> None:
    ours = {
        entry.name for entry in registered("method") if entry.make.__module__.startswith("fedflat.")
    }
    assert TWINS.keys() | ALONE.keys() == ours
    assert not TWINS.keys() & ALONE.keys()


def test_where_it_is() -> None:
    compared = "".join(path.read_text() for path in TESTS.glob("methods/test_*twins*.py"))
    for twin in TWINS.values():
        assert (TESTS / "literal" / f"{twin}.py").is_file()
        assert f"{twin}.run(" in compared or twin == "problem"
    for name, file in ALONE.items():
        text = (TESTS / file).read_text().lower()
        assert name in text or name.replace("_", "") in text
