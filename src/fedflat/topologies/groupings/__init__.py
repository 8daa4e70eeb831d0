"""Which clients stand together in a group (a superclient), by what they are like.

    random(d_min=1000, k_max=11)                              in random order
    kmeans(psi="confidence", d_min=1000, k_max=11)            clusters of like clients, dealt out over the groups
    greedy(psi="confidence", tau="kl", d_min=1000, k_max=11)  each group takes whoever is least like it
    icg(50, psi="confidence")                                 fifty groups with one of each kind of client

After FedSeq (Zaccone et al., ICPR 2022) and FedSeq2Par, which follows ICG (Zeng et al., 2022).
"""
