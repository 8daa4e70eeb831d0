"""Who holds which training example: each way to deal them out is a file, and is found by being there.

    iid()                   shuffle and cut
    lda(alpha)              a Dirichlet mixture of classes for each client (Hsu et al., arXiv:1909.06335)
    pam()                   coarse, then fine classes of CIFAR-100 (Reddi et al., ICLR 2021, appendix F)
    pathological(s)         s classes for each client (McMahan et al., AISTATS 2017)
    quantity_skew(sigma)    clients of very different sizes
    by_user()               one client for each owner
    from_file(path)         as a JSON file says, for instance a split released with a paper

Where the examples cannot be dealt out evenly, the first clients get one more: sizes differ by at most one, and no
example is left over.
"""
