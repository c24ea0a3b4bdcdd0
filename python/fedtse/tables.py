"""What comes back as arrays: estimates and features, by step and link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


def _long(steps: np.ndarray, links: list[str], numbers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns with one row for each step and link."""
    table = {
        "step": np.repeat(steps, len(links)),
        "link": np.tile(np.asarray(links, dtype=object), len(steps)),
    }
    return table | {name: values.reshape(-1) for name, values in numbers.items()}


@dataclass(frozen=True)
class Estimates:
    """Density and flow of all links, `[step, link]`.

    `pandas.DataFrame(estimates.columns())` and the like of Polars and pyarrow make a table of it.
    """

    #: The last step of each window.
    steps: np.ndarray
    #: Names of the links.
    links: list[str]
    #: Vehicles per kilometre and lane.
    density: np.ndarray
    #: Vehicles per minute and lane.
    flow: np.ndarray
    #: `density_low`, `density_high`, `flow_low`, `flow_high`, if asked for.
    intervals: dict[str, np.ndarray] = field(default_factory=dict)

    def columns(self) -> dict[str, np.ndarray]:
        """One row for each step and link, with the column names of `fedtse estimate`."""
        numbers = {"density_veh_km_lane": self.density, "flow_veh_min_lane": self.flow}
        return _long(self.steps, self.links, numbers | self.intervals)


@dataclass(frozen=True)
class FleetFeatures:
    """Edie's totals of a fleet, `[step, link]`."""

    #: Its share of all vehicles.
    rate: float
    #: Seconds that its vehicles spent in each box.
    travel_time_s: np.ndarray
    #: Metres that they went.
    travel_distance_m: np.ndarray
    #: How many they were.
    vehicles: np.ndarray
    #: The same by cells: `[step, link, sub-step, cell]`; none if links are not divided.
    cell_time_s: np.ndarray | None = None
    cell_distance_m: np.ndarray | None = None

    @property
    def speed_m_s(self) -> np.ndarray:
        """Distance over time; NaN where no vehicle was: missing is not zero."""
        nobody = self.travel_time_s == 0.0
        time = np.where(nobody, 1.0, self.travel_time_s)
        return np.where(nobody, np.nan, self.travel_distance_m / time)


@dataclass(frozen=True)
class Features:
    """Link-time features of a table, for all vehicles and for each fleet."""

    #: The steps that are complete.
    steps: np.ndarray
    #: Names of the links.
    links: list[str]
    #: Seconds of a step.
    step_s: float
    #: `all`, then each fleet by its name.
    fleets: dict[str, FleetFeatures]
    #: Vehicles that crossed each loop, `[step, loop]`.
    loops: np.ndarray
    #: Rows that were read.
    samples: int

    def columns(self, fleet: str = "all") -> dict[str, np.ndarray]:
        """One row for each step and link, with the column names of the feature files."""
        of = self.fleets[fleet]
        numbers = {
            "travel_time_s": of.travel_time_s,
            "travel_distance_m": of.travel_distance_m,
            "speed_m_s": of.speed_m_s,
            "vehicles": of.vehicles,
        }
        return _long(self.steps, self.links, numbers)
