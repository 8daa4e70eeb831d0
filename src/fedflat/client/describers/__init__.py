"""What a client is like, as a vector: from its labels, from a model it trained, or from a probe (FedSeq's estimators).

    class_shares(labels, classes)                  the share of each class; tells its labels outright
    confidence(probabilities, labels, classes)     how sure its model is of each class of a public set
    classifier_weights(module)                     the weights of its model's linear layers
    task2vec()                                     how much each filter of a probe matters for its data

The first three are functions of what the server has or is told; the last is a describer, worked out by the client.
"""
