"""What a client is like, as a tensor: from its labels, from a model it trained, or from a probe
(FedSeq's estimators).

label_counts()          how many examples of each class: tells them outright      psi="labels"
confidence()            how sure its model is of each class of a public set       psi="confidence"
classifier_weights()    the weights of its model's linear layers                  psi="classifier"
task2vec()              how much each filter of a probe matters for its data      psi="task2vec"
"""
