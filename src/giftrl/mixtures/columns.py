"""The columns of a round, and how many there are.

A mixture of one score keeps its experts in as many columns as the grid has, and four more: the coin, the full matrix,
and two that are empty, so that wide registers of four numbers are full. A round has four more columns for the
candidates, and puts the combined prediction into the first empty one. With K scores there are no empty columns.
"""

#: The rows of ``Buffers.every``: predictions, those less the origin, A z of the stack, predictions as they are
#: compared, losses, slopes; then the lengths c of proximal steps and their results a.
ALL, Z, AZ, CLIPPED, LOSSES, SLOPES, C, A, ROWS = range(9)
#: Its columns, counted from the end of the grid: the coin, the full matrix, the combined prediction, one that is not
#: used, the first candidate and the second one, which is the stack.
COIN, FULL, COMBINED, UNUSED, CANDIDATE, STACK = range(6)
