"""Methods: one file per paper, with the client half and the server half on one page.

`recipes` has methods that only combine others, `pieces` has the parts that can be added to any
method. A module in this folder is imported automatically. Start with `feddyn` or `scaffold`.
"""
