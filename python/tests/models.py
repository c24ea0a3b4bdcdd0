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


class Loops:
    """A linear map of what the host sees: loops and the signals' clock."""

    per_link = 1

    def __init__(self):
        self.weights, self.updates = None, 0

    def forward(self, x):
        if self.weights is None:
            self.weights = np.zeros((x.shape[1], 17), dtype=np.float32)
        self.x = x
        return x @ self.weights

    def backward(self, grad_z):
        self.updates += 1
        self.weights = self.weights - np.float32(0.05) * (self.x.T @ grad_z)

    def state_dict(self):
        return {"weights": self.weights, "updates": self.updates}

    def load_state_dict(self, state):
        self.weights, self.updates = state["weights"], state["updates"]
