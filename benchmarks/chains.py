"""A round of FedSeq beside a round of FedAvg with the same requests, in two workers: chains must
not cost more.

    python benchmarks/chains.py                     # the papers' CNN, then requests of a few milliseconds
    python benchmarks/chains.py --rounds 20 --workers 2

FedAvg asks the very clients that the chains of FedSeq go through, so both make the same requests of
the same lengths. They take turns, round by round of the benchmark, and the median of the seconds in
exchanges is told: the ratio is what chains cost. A bound is told beside it: no round of chains can
be shorter than its longest chain.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median
from typing import Any

from workloads import Noise

from fedflat import experiment
from fedflat.data.federation import DataSpec
from fedflat.execution.workers import Workers
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler, selected_clients

MLP: dict[str, Any] = {"model": "mlp(hidden=[400, 400])", "local_epochs": 4, "batch_size": 16}
CASES: dict[str, tuple[DataSpec | str, dict[str, Any]]] = {
    "cnn": (Noise(40, 100, (3, 32, 32)), {"model": "cnn()", "batch_size": 50, "lr": 0.01}),
    "mlp": ("digits(iid(), clients=40)", MLP),
    "mlp, unequal": ("digits(lda(0.3), clients=40)", MLP),
}


def pair(
    on: DataSpec | str, settings: dict[str, Any], rounds: int, chains: int
) -> tuple[Experiment, Experiment, float]:
    """FedSeq, FedAvg with the same requests, and the least that chains can take of FedAvg's time in
    two workers."""
    settings = {**settings, "rounds": rounds, "eval_every": rounds, "eval_last": 1}
    seq = experiment("fedseq(groups=8)", on, clients_per_round=5 * chains, **settings)
    setup = prepare(seq)
    args = [setup.server.select(t) for t in range(rounds)]
    work = [[sum(setup.fed.size(k) for k in chain) for chain in each["server"]] for each in args]
    least = sum(max(max(each), sum(each) / 2) for each in work) / sum(
        sum(each) / 2 for each in work
    )
    star = experiment("fedavg", on, **settings)
    return (
        seq,
        replace(star, sampler=ClientSampler(cohorts=[selected_clients(each) for each in args])),
        least,
    )


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chains", type=int, default=3, help="a round")
    args = parser.parse_args()
    print(f"{'clients':<14}{'FedAvg':>10}{'FedSeq':>10}{'ratio':>8}{'at least':>10}")
    for name, (on, settings) in CASES.items():
        seq, star, least = pair(on, settings, args.rounds, args.chains)
        seconds: dict[str, list[float]] = {"seq": [], "star": []}
        for turn in range(args.turns):
            for key, exp in sorted({"seq": seq, "star": star}.items(), reverse=bool(turn % 2)):
                result = train(exp, executor=Workers(args.workers, threads=1))
                seconds[key].append(result.ledger.training / args.rounds)
        a, b = median(seconds["star"]), median(seconds["seq"])
        ratios = [one / other for one, other in zip(seconds["seq"], seconds["star"], strict=True)]
        print(f"{name:<14}{a:>9.3f}s{b:>9.3f}s{median(ratios):>8.2f}{least:>10.2f}")


if __name__ == "__main__":
    main()
