"""Names of methods in tables, pages and figures."""

from __future__ import annotations

import pytest

from fedflat.errors import SettingError
from fedflat.experiments.results.scenario import labelled, read_labels

METHODS = ["fedavg()", "fedsam(rho=0.1)", "fedsam(rho=0.2)", "fedavg()"]


def test_an_exact_text_counts_before_dots_and_dots_before_a_bare_name() -> None:
    labels = {
        "fedsam": "by name",
        "fedsam(...)": "by dots",
        "fedsam( rho=0.1 )": "exact",
        "fedavg": "FedAvg",
    }
    assert labelled(METHODS, labels | {"fedsam": "by dots"}) == [
        "FedAvg",
        "exact",
        "by dots",
        "FedAvg",
    ]


def test_methods_with_one_label_keep_the_arguments_in_which_they_differ() -> None:
    assert labelled(METHODS, {"fedsam(...)": "FedSAM"}) == [
        "fedavg()",
        "FedSAM (rho=0.1)",
        "FedSAM (rho=0.2)",
        "fedavg()",
    ]
    pairs = ["fedasam(rho=0.1, eta=0) + swa()", "fedasam(rho=0.2, eta=0) + swa(start=0.5)"]
    assert labelled(pairs, {"fedasam + swa": "ASAM"}) == [
        "ASAM (rho=0.1, start=default)",
        "ASAM (rho=0.2, start=0.5)",
    ]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"fedprox": "FedProx"}, "no run has the method 'fedprox'. There are: fedavg()"),
        ({"fedsam(...)": "X", "fedavg": "X"}, "'X' would name 3 methods: fedavg(), fedsam"),
        ({"fedavg": "fedsam(rho=0.1)"}, "would name 2 methods"),
    ],
)
def test_labels_that_fit_none_or_two_are_refused(labels: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        labelled(METHODS, labels)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["FedGloSS", "fedgloss(rho=1)", "=x", "fedavg=", "a=b\x1b"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="it must be METHOD=NAME"):
        read_labels([text])
