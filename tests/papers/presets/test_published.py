"""Numbers and settings as the papers print them, copied by hand and in another order than the
presets' own tables."""

from __future__ import annotations

from typing import Any

import pytest

from fedflat.papers.presets import every, find

# name, number, standard deviation, table
NUMBERS = [
    ("eccv22/cifar100-alpha0.5-fedasam-swa", 49.17, None, "Table 2"),
    ("eccv22/cifar100-alpha0-20clients-fedavg", 38.59, None, "Table 2"),
    ("eccv22/cifar100-alpha1000-10clients-fedsam", 53.39, None, "Table 2"),
    ("eccv22/cifar100-alpha0.5-fedavg-e2", 38.21, None, "Table 2"),
    ("eccv22/cifar10-alpha100-20clients-fedasam-swa", 84.79, None, "Table 2"),
    ("eccv22/cifar10-alpha0.05-10clients-fedasam", 76.22, None, "Table 2"),
    ("eccv22/cifar10-alpha0-fedsam-swa", 74.97, None, "Table 2"),
    ("eccv22/cifar100-pam-fedsam", 53.10, None, "Table 3"),
    ("eccv22/cifar100-pam-e2-20clients-fedsam-mixup-swa", 58.88, None, "Table 3"),
    ("eccv22/cifar100-pam-20clients-fedasam-cutout", 50.66, None, "Table 3"),
    ("eccv22/cifar100-pam-e2-fedavg-cutout-swa-repo", 55.40, None, "Table 3"),
    ("eccv22/cifar10-alpha0-20clients-feddyn-sam-swa", 86.07, None, "Table 6"),
    ("eccv22/cifar10-alpha0.05-20clients-fedavgm", 78.51, None, "Table 6"),
    ("eccv22/cifar100-alpha0-adabest-asam-swa", 51.75, None, "Table 6"),
    ("eccv22/cifar100-alpha0.5-scaffold", 33.26, None, "Table 6"),
    ("eccv22/cifar100-alpha0-server-adam0.1", 29.75, None, "Table 13"),
    ("eccv22/cifar100-alpha1000-server-adagrad0.001", 32.01, None, "Table 13"),
    ("eccv22/cifar100-alpha1000-server-sgd0.1", 40.43, None, "Table 13"),
    ("eccv22/cifar10-alpha0-10clients-fedavg-cyclic", 63.96, None, "Table 14"),
    ("eccv22/cifar100-alpha1000-fedasam-swa1", 54.16, None, "Table 14"),
    ("fedgloss/cifar10-cnn-alpha0", 83.9, 0.4, "Table 3"),
    ("fedgloss/cifar100-cnn-alpha0.5-fedsmoo", 51.7, 0.46, "Table 3"),
    ("fedgloss/cifar100-resnet18-alpha0.5-fedgloss-sgd", 46.7, 0.6, "Table 3"),
    ("fedgloss/cifar10-resnet18-alpha0.05-fedspeed", 72.6, 0.1, "Table 3"),
    ("fedgloss/cifar10-cnn-alpha0.05-fedgamma", 61.9, 1.8, "Table 3"),
    ("fedgloss/cifar100-cnn-alpha0-scaffold", None, None, "Table 3"),
    ("fedgloss/cifar100-cnn-alpha0-naive-fedgloss", 50.8, 0.1, "Table 6"),
    ("fedgloss/cifar100-cnn-alpha1000-fedgloss-noadmm", 55.8, None, "Table 9"),
    ("fedgloss/cifar10-cnn-alpha100-feddyn-sam", 84.5, None, "Table 9"),
    ("fedfsa/fmnist-pat5", 93.78, 0.11, "Table 1"),
    ("fedfsa/fmnist-dir0.5-fedspeed", 92.88, 0.20, "Table 1"),
    ("fedfsa/cifar10-pat5-fedala", 81.62, 1.08, "Table 1"),
    ("fedfsa/cifar100-pat15-mofedsam", 70.33, 0.29, "Table 1"),
    ("fedfsa/cifar100-dir0.3-fedfsa", 60.87, 0.61, "Table 1"),
    ("fedfsa/cifar100-dir1-fedcr", 30.31, 0.36, "Table 2"),
    ("fedfsa/cifar100-dir0.1-fedsmoo", 65.85, 0.71, "Table 2"),
    ("ladd/mapillary-ladd-all", 38.78, 1.82, "Table 5.8"),
    ("ladd/crosscity", 39.87, 0.14, "Table 5.7"),
    ("ladd/cityscapes-fed-mcd", 10.86, 0.67, "Table 5.6"),
    ("ladd/cityscapes-central-ftda", 65.74, 0.48, "Table 5.6"),
    ("ladd/crosscity-self-training", 33.59, 1.25, "Table 5.7"),
    ("ladd/mapillary-central-source-only", 32.40, 0.71, "Table 5.8"),
    ("man/cifar100-delta0.3-feddc", 52.02, 0.79, "Table 1"),
    ("man/cifar100-iid-feddc-man", 56.77, 0.31, "Table 1"),
    ("man/cifar100-delta0.6-fedspeed-man-repo", 55.84, 0.11, "Table 1"),
    ("man/cifar100-delta0.6-fedasam", 45.48, 0.08, "Table 1"),
    ("man/cifar10-delta0.3-fedavg-man", 83.35, 0.09, "Table 5"),
    ("man/cifar10-delta0.6-feddyn", 82.00, 0.22, "Table 5"),
    ("eccv22/idda-rainy-unseen-fedasam-swa", 45.40, None, "Table 8"),
    ("eccv22/idda-uniform-country-seen-fedsam", 64.22, None, "Table 8"),
    ("eccv22/idda-country-unseen-silobn-asam", 35.22, None, "Table 8"),
    ("eccv22/cityscapes-cities-silobn-asam", 49.75, None, "Table 8"),
    ("feddrive/cityscapes-uniform-fedavg", 45.71, 0.37, "Table 6.2"),
    ("feddrive/cityscapes-cities-silobn-cfsi", 40.48, 1.40, "Table 6.2"),
    ("feddrive/idda-uniform-country-seen-fedavg", 63.57, 0.60, "Table 6.3"),
    ("feddrive/idda-country-unseen-fedavg-cfsi", 45.70, 1.73, "Table 6.3"),
    ("feddrive/idda-rainy-seen-fedbn", 56.45, None, "Table 6.3"),
    ("feddrive/idda-rainy-unseen", 53.99, 0.79, "Table 6.3"),
    ("wima/cifar10-alpha0", 69.95, None, "Table 4.22"),
    ("wima/cifar100-alpha0-mime-sgd-wima", 29.05, None, "Table 4.22"),
    ("wima/cifar100-alpha0.5-scaffold", 50.93, None, "Table 4.22"),
    ("wima/cifar100-pam-fedacg", 58.88, None, "Table 4.22"),
    ("wima/cifar100-pam-feddyn-wima", 63.00, None, "Table 4.22"),
    ("wima/cifar10-alpha0-fedavg-wima-w200", 68.74, None, "Table 4.24"),
    ("wima/cifar100-alpha0.5-b20-features", 36.29, None, "Table 4.25"),
    ("wima/cifar10-alpha0.05-b20-all", 78.87, None, "Table 4.25"),
    ("flsam/cifar10-dir0.01", 76.36, None, "Table README"),
    ("flsam/cifar10-iid-fedlesam-d", 77.71, None, "Table README"),
    ("flsam/cifar10-dir1-fedsmoo", 80.98, None, "Table README"),
    ("flsam/cifar10-dir0.1-feddyn-repo", 76.71, None, "Table README"),
    ("fedwmsam/fmnist-dir0.1", 84.64, None, "Table 1"),
    ("fedwmsam/fmnist-pat3-mofedsam", 68.22, None, "Table 1"),
    ("fedwmsam/cifar10-pat6-fedsmoo", 83.82, None, "Table 1"),
    ("fedwmsam/cifar10-dir0.6-fedlesam", 81.65, None, "Table 1"),
    ("fedseq/cifar10-alpha0", 81.89, 0.28, "Table 5.1"),
    ("fedseq/cifar100-alpha0.5-fedseq2par", 51.72, 0.10, "Table 5.1"),
    ("fedseq/cifar100-alpha0-fedasyncseq", 50.23, 0.11, "Table 5.1"),
    ("fedseq/cifar10-alpha0.5-fedcyclic", 83.49, 0.08, "Table 5.1"),
    ("fedseq/femnist-iid-fedseq", 87.48, 0.03, "Table 5.1"),
    ("fedseq/shakespeare-niid-feddyn", 51.77, 0.03, "Table 5.1"),
    ("fedseq/shakespeare-niid-centralised", 52.00, 0.02, "Table 5.1"),
    ("fedseq/cifar10-alpha0-clf-greedy-cosine", 79.95, None, "Table 5.3"),
    ("fedseq/femnist-niid-conf-kmeans", 87.10, None, "Table 5.3"),
    ("fedseq/shakespeare-iid-2par-t2v-icg", 52.54, None, "Table 5.3"),
    ("fedseq/omniglot-standin-fedseq", None, None, "Omniglot"),
    ("fedseq/stackoverflow-fedcyclic", 26.44, 1.68, "Table 5.1"),
    ("fedseq/stackoverflow-centralised", 28.50, 0.20, "Table 5.1"),
    ("fedseq/stackoverflow-fedseq2par", 29.79, 0.33, "Table 5.1"),
    ("fedseq/femnist-niid-fedseq-rounds90", None, None, "Figure 5.6"),
    ("eccv22/cifar100-alpha1000-fedsam-swa-ratio", 1.61, None, "Table 1"),
    ("eccv22/cifar100-alpha0-fedavg-e2-lambda1", 110.62, None, "Table 1"),
    ("eccv22/cifar100-alpha0.5-20clients-fedasam-mixup", 44.45, None, "Table 4"),
    ("eccv22/cifar100-alpha1000-10clients-fedsam-cutout-swa-repo", 54.28, None, "Table 4"),
    ("eccv22/cifar10-alpha0.05-10clients-fedsam-cutout", 71.39, None, "Table 17"),
    ("eccv22/cifar10-alpha100-fedavg-swa-from25", 81.49, None, "Table 15"),
    ("eccv22/cifar100-centralised-asam-swa", 55.96, None, "Table 5"),
    ("eccv22/cifar10-alpha0.05-20clients-fedavgm-sam-swa", 85.98, None, "Table 4.6"),
    ("eccv22/cifar100-alpha1000-20clients-fedavgm-asam", 53.74, None, "Table 4.6"),
    ("eccv22/landmarks-fedsam-swa100", 68.12, None, "Table 7"),
    ("eccv22/cifar100-pam-20clients-fedasam-at5k", 47.21, None, "Table 3"),
    ("eccv22/cifar100-pam-e2-fedsam-cutout-at5k", 49.39, None, "Table 3"),
    ("fedgloss/landmarks", 59.7, 1.2, "Table 4"),
    ("fedgloss/cifar100-resnet18-alpha0.5-scaffold-cost", 1.8, None, "Table 5"),
    ("fedgloss/cifar10-resnet18-alpha0.05-fedgamma-rounds", 9300, None, "Table 5"),
    ("fedgloss/landmarks-fedsmoo-rounds", 200, None, "Table 5"),
    ("fedgloss/cifar100-cnn-alpha0.5-fedspeed-rounds", 15700, None, "Table 10"),
    ("fedgloss/cifar10-cnn-alpha0.05-feddyn-sam-speedup", 2.4, None, "Table 10"),
    ("fedgloss/cifar100-cnn-alpha0-naive-fedgloss-half", 42.6, 0.8, "Table 6"),
    ("fedgloss/cifar100-cnn-alpha0-naive-fedgloss-lambda1", 16.93, 0.27, "Table 6"),
    ("fedgloss/cifar100-centralised-last-sam", 57.6, None, "Table 6"),
    ("fedgloss/cifar10-cnn-alpha0.05-scaffold-lambda1", 180.51, 30.08, "Table 8"),
    ("fedgloss/cifar100-cnn-alpha1000-fedgloss-noadmm-lambda1", 13.9, None, "Table 9"),
    ("fedgloss/cifar10-cnn-alpha0-fedgloss-global", 4.08, None, "Table 1"),
    ("fedgloss/cifar100-cnn-alpha0-fedsam-local", 4.72, None, "Table 1"),
    ("man/tiny-delta0.6-feddc-man", 36.07, 0.23, "Table 1"),
    ("man/tiny-iid-fedasam", 23.96, 0.43, "Table 1"),
    ("man/tiny-delta0.3-fedavg-man-rounds", 437, None, "Table 1"),
    ("man/cifar100-iid-fedspeed-rounds", 439, None, "Table 1"),
    ("man/cifar100-delta0.6-feddyn-man-trace", 3966.0, None, "Table 2"),
    ("man/cifar100-delta0.3-fedspeed-man-lambda1", 40.41, None, "Table 6"),
    ("fedfsa/tiny-pat50-mofedsam", 33.80, 0.29, "Table 1"),
    ("fedfsa/tiny-dir0.3-50clients-fedcr", 28.62, 0.39, "Table 2"),
    ("wima/femnist-mimelite-wima", 87.51, None, "Table 4.22"),
    ("wima/landmarks-scaffold", 62.32, None, "Table 4.23"),
    ("fedvpr/streets-standin-hfl-towns", None, None, "H-FL's Table 6.6"),
]


@pytest.mark.parametrize(
    ("name", "value", "spread", "table"), NUMBERS, ids=[row[0] for row in NUMBERS]
)
def test_numbers(name: str, value: float | None, spread: float | None, table: str) -> None:
    preset = find(name)
    assert (preset.reported, preset.spread, preset.table) == (value, spread, table)


# name, method, data, model, rounds, some settings
SETTINGS: list[tuple[str, str, str, str, int, dict[str, Any]]] = [
    ("eccv22/cifar10-alpha100-fedsam", "fedsam(rho=0.02)", "cifar10(lda(100), clients=100)", "cnn()", 10000,
     {"lr": 0.01, "batch_size": 64, "weight_decay": 4e-4, "local_epochs": 1, "clients_per_round": 5}),
    ("eccv22/cifar100-alpha0-20clients-adabest-asam-swa",
     "adabest(beta=0.8, mu=0.02) + asam(rho=0.5, eta=0.2) + swa(cycle=20)", "cifar100(lda(0), clients=100)", "cnn()",
     20000, {"clients_per_round": 20}),
    ("eccv22/cifar10-alpha0.05-fedasam-cyclic", "fedasam(rho=0.7, eta=0.2) + swa(cycle=10, average=False)",
     "cifar10(lda(0.05), clients=100)", "cnn()", 10000, {}),
    ("eccv22/cifar100-pam-e2-fedasam-mixup-swa", "fedasam(rho=0.5, eta=0) + mixup(alpha=1.0) + swa(cycle=5)",
     "cifar100(pam(), clients=500)", "resnet18()", 10000,
     {"local_epochs": 2, "batch_size": 20, "momentum": 0.9, "clients_per_round": 10, "sampler_seed": "round"}),
    ("eccv22/cifar100-pam-fedavg-cutout", "fedavg() + cutout(side=8)", "cifar100(pam(), clients=500)", "resnet18()",
     10000, {}),
    ("eccv22/cifar100-alpha0-server-adagrad0.01", "fedadagrad(lr=0.01, flavour='torch')",
     "cifar100(lda(0), clients=100)", "cnn()", 20000, {"clients_per_round": 5}),
    ("fedgloss/cifar100-cnn-alpha0.5-repo",
     "fedgloss(rho_s=0.01, rho_l=0.2, beta=100, T_s=15000, dual_scale='repo', server_rho='repo')",
     "cifar100(lda(0.5), clients=100, normalise='fedgloss', augment='fedgloss')", "cnn()", 20000,
     {"clients_per_round": 5, "lr": 0.01, "weight_decay": 4e-4}),
    ("fedgloss/cifar10-cnn-alpha0-fedavg-repo", "fedavg()",
     "cifar10(lda(0), clients=100, normalise='fedgloss', augment='fedgloss')", "cnn()", 10000, {}),
    ("fedgloss/cifar10-resnet18-alpha0.05", "fedgloss(rho_s=0.01, rho_l=0.01, beta=1)",
     "cifar10(lda(0.05), clients=100, normalise='fedgloss')", "resnet18()", 10000,
     {"clients_per_round": 10, "momentum": 0.7, "weight_decay": 1e-5}),
    ("fedgloss/cifar10-cnn-alpha100-fedgloss-sgd-noadmm", "fedgloss(rho_s=0.15, admm=False)",
     "cifar10(lda(100), clients=100, normalise='fedgloss')", "cnn()", 10000, {}),
    ("fedfsa/cifar100-pat15", "fedfsa(rho=0.05, rho_larger=0.9, top=2, a=0.1) + personal()",
     "cifar100(pathological(15), clients=100, split=0.7, pool=True)", "fsa_cnn()", 500,
     {"local_epochs": 10, "batch_size": 48, "lr": 0.1, "clip": 10.0, "clients_per_round": 10}),
    ("fedfsa/fmnist-dir0.5-fedspeed-repo", "fedspeed(rho=0.1, lam=10, server='feddyn') + personal()",
     "fashion_mnist(lda(0.5, concentration='component', in_turns=True), clients=100, split=0.7, pool=True, "
     "normalise='fedfsa')", "fsa_cnn(channels=[4, 12])", 250,
     {"lr": "decay(0.1, 0.998)"}),
    ("ladd/crosscity-ladd-all",
     "ladd(parts='all', kd=20.0, t_start=400, groups=by_style(psi=mean_style(size=[512, 1024])))", "crosscity()",
     "deeplabv3(stride=32, rates=[12, 24, 36])", 1000,
     {"lr": 0.01, "clients_per_round": 4, "batch_size": 16, "momentum": 0.9, "drop_last": True,
      "init": "pretrained(gta5(classes='crosscity'), 10, lr=poly(0.005, 10, 0.9), "
              "styles=mean_style(size=[512, 1024]))"}),
    ("ladd/cityscapes-self-training", "self_training(omega=5, t_start=200)", "cityscapes(double=True)",
     "deeplabv3(stride=32, rates=[12, 24, 36])", 300, {"lr": 5e-5, "clients_per_round": 5}),
    ("man/cifar100-iid-fedspeed-man-repo",
     "fedspeed(rho=0.01, lam=100, server='feddyn') + man(zeta=0.15, man_scale='repo') + all_clients()",
     "cifar100(iid(), clients=100, augment='feddyn')", "cnn(pool_first=False)", 500,
     {"sampler": "bernoulli", "clients_per_round": 10, "lr": "decay(0.1, 0.998)", "clip": 10.0, "weight_decay": 1e-3,
      "local_epochs": 5, "batch_size": 50, "eval_last": 1}),
    ("man/cifar100-delta0.6-feddyn", "feddyn(alpha=0.01) + all_clients()",
     "cifar100(lda(0.6, concentration='component', in_turns=True), clients=100, augment='feddyn')", "cnn()", 500, {}),
    ("wima/cifar10-alpha0.05-mime-sgdm-wima", "mime(b=0.9) + wima(window=100)", "cifar10(lda(0.05), clients=100)",
     "resnet20()", 10000, {"lr": 0.1, "batch_size": 100, "clients_per_round": 10, "local_epochs": 1}),
    ("wima/cifar100-alpha0-b20-classifier", "fedavg() + wima(window=100, scope='classifier')",
     "cifar100(lda(0), clients=100)", "resnet20()", 10000, {"batch_size": 20}),
    ("fedseq/cifar100-alpha0.2-fedseq2par",
     "fedseq2par(growth=exponential(0.000235), groups=icg(5, psi='task2vec'))",
     "without_public_part(cifar100(by_class(0.2), clients=500))", "cnn()", 20000,
     {"clients_per_round": 100, "lr": 0.01, "batch_size": 64, "weight_decay": 4e-4}),
    ("fedseq/cifar10-alpha0-centralised", "centralised()",
     "without_public_part(cifar10(by_class(0), clients=500))", "cnn()", 300,
     {"lr": "cosine(0.01, 0.0, 300)", "momentum": 0.9, "batch_size": 64, "weight_decay": 4e-4}),
    ("fedseq/shakespeare-niid-centralised", "centralised()", "without_public_part(leaf_shakespeare())",
     "char_lstm(every=False)", 75, {"lr": "cosine(1.0, 0.0, 75)", "batch_size": 100}),
    ("fedseq/stackoverflow-feddyn", "feddyn(alpha=0.001)", "stackoverflow(clients=40000, most=1000)", "word_lstm()",
     1500, {"clients_per_round": 8000, "batch_size": 16, "lr": 0.3162, "clip": 30.0}),
    ("man/tiny-iid-fedsam-man", "fedsam(rho=0.01) + man(zeta=0.1) + all_clients()",
     "tiny_imagenet(iid(), clients=100, augment='feddyn')", "tiny_convnet()", 500, {"weight_decay": 1e-3}),
    ("man/tiny-delta0.3-fedsam", "fedsam(rho=0.05) + all_clients()",
     "tiny_imagenet(lda(0.3, concentration='component', in_turns=True), clients=100, augment='feddyn')",
     "tiny_convnet()", 500, {}),
    ("fedfsa/tiny-dir0.3-50clients-fedfsa", "fedfsa(rho=0.05, rho_larger=0.9, top=2, a=0.1) + personal()",
     "tiny_imagenet(lda(0.3, concentration='component', in_turns=True), clients=50, split=0.7, pool=True, "
     "normalise='fedfsa')", "fsa_cnn(channels=[32, 32], hidden=[512, 1024])", 500, {"local_epochs": 10}),
    ("eccv22/landmarks-fedasam-swa", "fedasam(rho=0.5, eta=0.2) + swa(cycle=5)", "landmarks()",
     "mobilenetv2(norm='group', dropout=0)", 5000,
     {"clients_per_round": 10, "local_epochs": 5, "batch_size": 64, "lr": 0.1, "weight_decay": 4e-5}),
    ("fedgloss/landmarks-feddyn-sam", "feddyn(alpha=0.001) + sam(rho=0.05)", "landmarks()",
     "mobilenetv2(norm='group', dropout=0)", 1300, {"clients_per_round": 50, "local_epochs": 5}),
    ("fedgloss/cifar100-cnn-alpha0-fedgloss-lambda1",
     "fedgloss(rho_s=0.01, rho_l=0.2, beta=100, T_s=15000) + wima(window=100)",
     "cifar100(lda(0), clients=100, normalise='fedgloss')", "cnn()", 20000, {}),
    ("wima/landmarks-fedavg-wima", "fedavg() + wima(window=370)", "landmarks()",
     "mobilenetv2(norm='group', dropout=0)", 3000, {"clients_per_round": 10, "batch_size": 50, "local_epochs": 5}),
    ("wima/femnist-adabest", "adabest(beta=0.9, mu=0.02)", "femnist()", "mcmahan_cnn()", 1500,
     {"clients_per_round": 10, "batch_size": 10, "lr": 0.1}),
    ("fedseq/femnist-niid-fedseq", "fedseq(groups=kmeans(psi='task2vec', d_min=4120, k_max=21))",
     "without_public_part(femnist())", "femnist_cnn()", 1500, {"clients_per_round": 700, "lr": 0.01, "batch_size": 20}),
    ("fedvpr/streets-standin-fedvc250", "fedvc(n=1000)", "street(towns=4, clients=80, targets='place')",
     "embedder()", 1600,
     {"clients_per_round": 5, "batch_size": 4}),
    ("flsam/cifar10-dir0.1", "fedgmt(alpha=0.95, gamma=1, beta=10, T=3)",
     "cifar10(lda(0.1, concentration='component'), clients=100, augment='fedgloss')", "mcmahan_cnn()", 500,
     {"lr": "decay(0.01, 0.998)", "momentum": 0.9, "weight_decay": 1e-5, "batch_size": 50, "local_epochs": 5}),
    ("fedwmsam/cifar10-dir0.1-fedwmsam-repo", "fedwmsam(rho=0.01, a=0.1, lam=0.01, flavour='repo')",
     "cifar10(lda(0.1, concentration='component', in_turns=True), clients=100, normalise='fedgloss', "
     "augment='feddyn')", "resnet18(stem='large')", 500, {"lr": "decay(0.1, 0.998)", "weight_decay": 1e-3}),
    ("wima/cifar100-pam-fedavg", "fedavg()", "cifar100(pam(), clients=500)", "resnet20()", 10000,
     {"lr": 0.05, "batch_size": 20, "clients_per_round": 100, "weight_decay": 4e-4}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "method", "on", "model", "rounds", "some"), SETTINGS, ids=[row[0] for row in SETTINGS]
)
def test_settings(
    name: str, method: str, on: str, model: str, rounds: int, some: dict[str, Any]
) -> None:
    preset = find(name)
    assert (preset.method, preset.on, preset.model, preset.rounds) == (method, on, model, rounds)
    assert {key: preset.settings[key] for key in some} == some


def test_asides() -> None:
    """What is printed beside a number."""
    assert (
        find("eccv22/cifar100-pam-e2-20clients-fedasam").note
        == "53.88 after 5,000 rounds, without SWA."
    )
    assert (
        find("eccv22/cifar10-alpha0-fedavgm").note
        == "The paper's number is that of chance: it did not learn."
    )
    assert (
        find("fedgloss/cifar10-cnn-alpha0-naive-fedgloss").note
        == "77.6 ± 0.3 after half of the rounds."
    )
    assert find("fedgloss/cifar100-cnn-alpha0.5").note == "47.2 ± 1.1 after half of the rounds."
    assert find("man/cifar100-delta0.6-feddyn").note == "Reaches 50 % after 486 rounds."
    assert find("man/cifar100-delta0.3-fedavg").note == "Does not reach 50 % in 500 rounds."
    assert "swapped" in find("man/cifar10-delta0.3-fedavg").note
    assert "grid" in find("wima/cifar10-alpha0-fedcm").note
    assert find("fedgloss/cifar100-cnn-alpha0-feddyn").figure == "X"


def test_what_is_not_reached() -> None:
    never = find("fedgloss/cifar10-cnn-alpha0-scaffold-rounds")
    assert (never.figure, never.unreached, never.target) == (
        "-",
        True,
        "fedgloss/cifar10-cnn-alpha0-fedavg",
    )
    assert find("fedgloss/landmarks-fedgamma-cost").figure == "X"
    assert find("man/tiny-iid-fedavg-rounds").figure == "-"
    assert find("man/tiny-iid-fedavg-rounds").target == 28
    assert find("fedgloss/cifar10-cnn-alpha0-fedprox-rounds").figure == "7600"
    assert find("man/cifar100-delta0.3-fedavg-trace").where == "train"
    assert find("fedgloss/cifar10-cnn-alpha0-fedavg-lambda1").where == "test"


def test_seeds() -> None:
    assert find("fedgloss/cifar10-cnn-alpha0").seeds == (0, 42, 200299)
    assert find("fedfsa/fmnist-pat5").seeds == (23, 100, 200)
    assert find("wima/cifar10-alpha0").seeds == ()


def test_attacks_with_the_same_share() -> None:
    """Table 5.5: FedAvg has as many attackers at (0.1, 0.5) as at (0.5, 0.1), and in most columns
    the same numbers."""
    own = {preset.name: preset for preset in every() if preset.name.startswith("attacks/")}
    assert len(own) == 2 * (6 * 8 + 2)
    assert own["attacks/cifar10-none-fedseq"].reported == 76.10
    assert "attack" not in own["attacks/cifar100-none-fedavg"].settings
    for flip in (
        "cifar10-0-2",
        "cifar10-3-5",
        "cifar10-both",
        "cifar10-both-random",
        "cifar100-intra",
    ):
        assert (
            own[f"attacks/{flip}-0.1-0.5-fedavg"].reported
            == own[f"attacks/{flip}-0.5-0.1-fedavg"].reported
        )
    worst = own["attacks/cifar10-both-random-0.5-0.5-fedseq"].experiment()
    assert own["attacks/cifar10-both-random-0.5-0.5-fedseq"].reported == 73.46
    assert repr(worst.attack) == "label_flip(L_S=0.5, pairs=[[0, 2], [3, 5]], draw='random')"
    assert repr(worst.topology) == "chains(groups=random(), draw='share')"
