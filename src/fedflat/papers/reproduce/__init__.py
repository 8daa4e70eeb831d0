"""A paper's table run again: cells chosen, runs shared and made side by side, our numbers beside
the paper's.

cells       what is run for a cell of a table, and what is reported for it
choosing    which cells a command means
tablefile   a user's own table
sharing     several cells, one run
plan        the folder: what shall be run, for which cells, to which round
several     runs side by side, each in a process of its own (child)
standing    how far each cell is, and its number so far
verdict     what may be said of it
screen      the live table; writing and figure: the files
"""
