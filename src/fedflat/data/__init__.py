"""Data sets, who holds what of them, and the batches cut from them."""

from fedflat.data.attack import label_flip
from fedflat.data.examples import Batch, ClientData, Examples
from fedflat.data.federation import DataSpec, Dealt, Federation, OnDemand
from fedflat.data.given import clients_from, clients_of, tensors
from fedflat.data.ownership import by_user, from_file, quantity_skew
from fedflat.data.partition import Partition, iid, lda, pam, pathological
from fedflat.data.places import set_data_dir
from fedflat.data.sets import cifar10, cifar100, digits, fashion_mnist, mnist
from fedflat.data.skew import Skew
from fedflat.data.synthetic import synthetic

__all__ = [
    "Batch",
    "ClientData",
    "DataSpec",
    "Dealt",
    "Examples",
    "Federation",
    "OnDemand",
    "Partition",
    "Skew",
    "by_user",
    "cifar10",
    "cifar100",
    "clients_from",
    "clients_of",
    "digits",
    "fashion_mnist",
    "from_file",
    "iid",
    "label_flip",
    "lda",
    "mnist",
    "pam",
    "pathological",
    "quantity_skew",
    "set_data_dir",
    "synthetic",
    "tensors",
]
