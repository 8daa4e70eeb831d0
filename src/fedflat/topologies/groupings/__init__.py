"""Groupings: which clients form a group (a superclient or a cluster), by their descriptions.

A grouping is a subclass of `Grouping` in `grouping`; start reading there. What a group does belongs
in the topology that uses it.

    random(d_min=1000, k_max=11)                              in random order
    kmeans(psi="confidence", d_min=1000, k_max=11)            one client from each cluster in turn
    greedy(psi="confidence", tau="kl", d_min=1000, k_max=11)  the client least similar to the group
    icg(50, psi="confidence")                                 fifty groups with one of each cluster

After FedSeq (Zaccone et al., ICPR 2022) and FedSeq2Par, which follows ICG (Zeng et al., 2022).
"""
