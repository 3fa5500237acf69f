"""Clipping limits of a mixture, so that no sum, square or quotient overflows. Ordinary data never reach them. They keep
results finite for features of 1e300 and weights of 1e-300.
"""

#: Values of features are clipped here: the difference of two is still a float64.
LARGEST_VALUE = 8e307
#: A feature with smaller deviations has no scale, since dividing a weight by it would overflow.
SMALLEST_SCALE = 1e-301
#: Deviations in units of the scale are clipped here: their squares are summed in float64.
LARGEST_UNSCALED = 1e15
#: Labels are clipped here for learning, so that squares stay in float64. The inverse is the minimum spread.
LARGEST_LABEL, SMALLEST_SPREAD = 1e100, 1e-100
#: Example weights are clipped here for learning, but not in the progressive loss.
LIGHTEST_ROW, HEAVIEST_ROW = 1e-30, 1e15
#: The weights and accumulators of the experts on the grid, in units in which features and labels are near 1; float32.
LARGEST_EXPERT_WEIGHT = 1e30
#: The weights of the full matrix, in the same units; float64.
LARGEST_MATRIX_WEIGHT = 1e100
#: The slope at the combined prediction in units of S: its square is summed in float32.
LARGEST_SLOPE = 1e15
#: An expert with a larger prediction predicts the constant instead.
LARGEST_PREDICTION = 1e120
#: If predictions have no range, experts are compared by predictions clipped here.
FAR_PREDICTION = 30.0
#: The loss of one row when experts are compared: sums of losses stay in float64.
LARGEST_LOSS = 1e290
#: With K scores experts are compared by losses clipped here, and a proximal step is taken at most at this length.
LARGEST_CLASS_LOSS, LONGEST_CLASS_STEP = 30.0, 1e300
#: The stack does not learn from a row whose <z, A z> is more than this many times the squared spread of labels.
LONGEST_STACK_STEP = 1e12
#: The limit of theta's coordinates; beyond it, a run has no certificate.
LARGEST_THETA = 1e150
#: Rows with slopes and values below these move theta within its bounds, 1e20 of them.
ORDINARY_SLOPE, ORDINARY_VALUE = 1e100, 1e30
#: The weights of the original features, which are divided by the scales of these.
LARGEST_WEIGHT = 1e307
