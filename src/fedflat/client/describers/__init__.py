"""Describers: tensors that a client computes from its data before round 0, as for groupings.

A describer is a subclass of `fedflat.client.instructions.Describer`; start reading there. What
the server computes from descriptions belongs in `fedflat.topologies.groupings`. FedSeq's
estimators:

    label_counts()          number of examples of each class (not private)      psi="labels"
    confidence()            its model's confidence in each public class         psi="confidence"
    classifier_weights()    the weights of its model's linear layers            psi="classifier"
    task2vec()              importance of each filter of a probe for its data   psi="task2vec"
"""
