"""Who holds which training example: each way to deal them out is a file, and is found by being
there.

    iid()                   shuffle and cut
    dirichlet(alpha)        each class divided over the clients by a Dirichlet draw (NIID-Bench, PFLlib, FedLab, Flower)
    by_class(alpha)         the same with sizes made equal (FedSeq's code)
    lda(alpha)              a Dirichlet mixture of classes for each client (Hsu et al., arXiv:1909.06335)
    pam()                   coarse, then fine classes of CIFAR-100 (Reddi et al., ICLR 2021, appendix F)
    pathological(s)         s classes for each client (McMahan et al., AISTATS 2017)
    quantity_skew(sigma)    clients of very different sizes
    by_user()               one client for each owner
    from_file(path)         as a JSON file says, for instance a split released with a paper

Where a partition has equal sizes and the examples cannot be divided evenly, the first clients get
one more. Every example is used.
"""
