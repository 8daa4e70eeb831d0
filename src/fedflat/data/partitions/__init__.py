"""Partitions: which client holds which training example.

    iid()                   shuffle and cut
    dirichlet(alpha)        each class divided over the clients by a Dirichlet draw (NIID-Bench,
                            PFLlib, FedLab, Flower)
    by_class(alpha)         the same with sizes made equal (FedSeq's code)
    lda(alpha)              a Dirichlet mixture of classes for each client (Hsu et al.,
                            arXiv:1909.06335)
    pam()                   coarse, then fine classes of CIFAR-100 (Reddi et al., ICLR 2021,
                            appendix F)
    pathological(s)         s classes for each client (McMahan et al., AISTATS 2017)
    quantity_skew(sigma)    clients of very different sizes
    by_user()               one client for each owner
    from_file(path)         as listed in a JSON file, for instance a split released with a paper

Each partition is one module, and every module in this folder is imported. If a partition has equal
sizes and the examples cannot be divided evenly, the first clients get one more. Every example is
used. Start with `partition.py` and `iid.py`.
"""
