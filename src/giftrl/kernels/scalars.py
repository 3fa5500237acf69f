"""The numbers that a model carries from round to round besides its coordinates, as one row of float64."""

TIME = 0  # t, the number of the next round
LAM = 1  # lambda_t
TOTAL = 2  # the evidence of the schedule
THETA2 = 3  # norm2(theta)^2, where rounds need it; counted anew from time to time
ENERGY = 4  # sum_j soft(u_j)^2 / w_j with L_j = lambda w_j: what a growing lambda moves in the coordinates not touched
LOSS = 5  # sum of l_t(x_t)
CONJUGATE = 6  # sum of l*_t(z_t)
DELTA = 7  # sum of H(g_t) - H(z_t)
ROUNDING = 8  # sum of norm2(theta_t)^2 over what a round stores: bounds what storing theta in fewer bits can do
WALKED = 9  # the entries seen since THETA2 was last counted
SIZE = 10
