"""Reproduce the table of a paper: select cells, share runs, run them in parallel, compare.

Code for `fedflat reproduce` belongs here, except for its options, which are in `fedflat.cli`. Start
reading at `plan.py`.

    cells         the run of a cell of a table, and the reported number
    selection     which cells a command selects
    table_file    a user's own table
    run_sharing   one run for several cells
    plan          the folder: runs, their cells, the round to stop after
    scheduler     runs in parallel, each in its own process (child)
    status        progress and score of each cell
    verdict       how our number compares with the paper's
    live_table    the table in a terminal; export and figure: the files
"""
