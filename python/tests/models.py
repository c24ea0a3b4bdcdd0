"""Sub-models in plain NumPy, for tests."""

import numpy as np


class Linear:
    """A linear map of each link's own window, moved by plain gradient descent."""

    per_link = 2

    def __init__(self, rate=0.05):
        self.weights = np.zeros((17, 27, 2), dtype=np.float32)
        # Density and flow of the last step are where it starts.
        self.weights[:, -3, 0] = self.weights[:, -2, 1] = 1.0
        self.rate = rate
        self.gradients = []

    def forward(self, x):
        assert x.dtype == np.float32 and x.shape[1:] == (17, 27)
        self.x = x
        return np.einsum("slc,lcz->slz", x, self.weights)

    def backward(self, grad_z):
        assert grad_z.shape == (len(self.x), 34)
        self.gradients.append(grad_z)
        grad_z = grad_z.reshape(len(self.x), 17, 2)
        self.weights = self.weights - self.rate * np.einsum("slc,slz->lcz", self.x, grad_z)

    def state_dict(self):
        return {"weights": self.weights}

    def load_state_dict(self, state):
        self.weights = state["weights"]


class Failing(Linear):
    """One that gives up after some updates."""

    def __init__(self, after=3):
        super().__init__()
        self.after = after

    def backward(self, grad_z):
        super().backward(grad_z)
        if len(self.gradients) == self.after:
            raise ZeroDivisionError("the fleet's own mistake")
