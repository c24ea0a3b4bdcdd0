//! Which lanes suit a route: this link's turn, and the next one's.

use super::streets::{LaneId, Street, Streets};
use super::vehicle::{Onward, Vehicle};

/// How many turns ahead drivers choose their lane for.
const TURNS_AHEAD: usize = 2;
/// The cost of a lane that leads nowhere, before changing out of it.
const NEVER: u8 = u8::MAX;

impl Streets {
    /// Sets what a vehicle must know of the lane that it came into: lane costs and where it leads.
    pub(super) fn settle(&self, vehicle: &mut Vehicle, lane: LaneId) {
        let mut costs = std::mem::take(&mut vehicle.lane_costs);
        self.lane_costs(vehicle, vehicle.leg as usize, self.street_of(lane), &mut costs);
        vehicle.lane_costs = costs;
        vehicle.onward = self.onward(vehicle, vehicle.leg as usize, lane);
    }

    /// Where a lane leads a vehicle on one link of its route.
    pub(super) fn onward(&self, vehicle: &Vehicle, leg: usize, lane: LaneId) -> Onward {
        let Some(&turn) = vehicle.turns.get(leg) else {
            return Onward::Exit;
        };
        let way = self.way(turn);
        let street = &self.streets[way.to as usize];
        match way.onto[usize::from(self.lane(lane).number)].as_slice() {
            [] => Onward::Nowhere,
            [only] => Onward::Into(street.first_lane + LaneId::from(*only)),
            several => {
                let mut costs = Vec::new();
                self.lane_costs(vehicle, leg + 1, street, &mut costs);
                let best = several.iter().min_by_key(|&&option| costs[usize::from(option)]);
                best.map_or(Onward::Nowhere, |&b| Onward::Into(street.first_lane + LaneId::from(b)))
            }
        }
    }

    /// For each lane of a link of the route, the fewest lane changes on this and the next link.
    fn lane_costs(&self, vehicle: &Vehicle, leg: usize, street: &Street, costs: &mut Vec<u8>) {
        // Work backwards from the link after the last turn that counts, where all lanes are equal.
        let last = (leg + TURNS_AHEAD).min(vehicle.turns.len());
        costs.clear();
        let final_lanes = if last == leg {
            street.lanes
        } else {
            self.streets[self.way(vehicle.turns[last - 1]).to as usize].lanes
        };
        costs.resize(usize::from(final_lanes), 0);
        let mut further = Vec::new();
        for here in (leg..=last).rev() {
            if here < last {
                std::mem::swap(costs, &mut further);
                let way = self.way(vehicle.turns[here]);
                costs.clear();
                costs.extend(way.onto.iter().map(|onto| {
                    onto.iter().map(|&to| further[usize::from(to)]).min().unwrap_or(NEVER)
                }));
                spread(costs);
            }
            if let Some(parking) = vehicle.parking
                && parking.leg as usize == here
            {
                let from_there = costs.get(usize::from(parking.lane)).copied().unwrap_or(0);
                costs.fill(NEVER);
                if let Some(cost) = costs.get_mut(usize::from(parking.lane)) {
                    *cost = from_there;
                }
                spread(costs);
            }
        }
    }
}

/// From the cost of each lane's end to that of being in each lane: one more for each change.
fn spread(costs: &mut [u8]) {
    for lane in 1..costs.len() {
        costs[lane] = costs[lane].min(costs[lane - 1].saturating_add(1));
    }
    for lane in (1..costs.len()).rev() {
        costs[lane - 1] = costs[lane - 1].min(costs[lane].saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use traffic::{VehicleClass, corridor};

    use super::*;

    fn lane_costs(route: &[&str]) -> Vec<u8> {
        let network = corridor().unwrap();
        let streets = Streets::new(&network);
        let links: Vec<_> = route.iter().map(|name| network.link_named(name).unwrap()).collect();
        let turns: Vec<_> =
            links.windows(2).map(|w| network.turn_between(w[0], w[1]).unwrap()).collect();
        let mut vehicle = Vehicle::new(0, VehicleClass::Car, turns.into(), None, 0.5, 0.0);
        streets.settle(&mut vehicle, streets.lane_of(links[0], 0));
        vehicle.lane_costs
    }

    #[test]
    fn changes_cost_one_each_from_either_side() {
        let spread_of = |mut costs: Vec<u8>| {
            spread(&mut costs);
            costs
        };
        assert_eq!(spread_of(vec![NEVER, NEVER, 0, NEVER]), [2, 1, 0, 1]);
        assert_eq!(spread_of(vec![0, NEVER, NEVER, 1]), [0, 1, 2, 1]);
        assert_eq!(spread_of(vec![5, 0]), [1, 0]);
        // Where no lane leads on, none does: costs stay at their end and do not wrap around.
        assert_eq!(spread_of(vec![NEVER; 3]), [NEVER; 3]);
        assert_eq!(spread_of(Vec::new()), [] as [u8; 0]);
    }

    #[test]
    fn a_lane_leads_out_on_or_nowhere() {
        let network = corridor().unwrap();
        let streets = Streets::new(&network);
        let link = |name: &str| network.link_named(name).unwrap();
        let lane = |name: &str, number| streets.lane_of(link(name), number);
        let turns = vec![network.turn_between(link("E1"), link("off_R1")).unwrap()];
        let vehicle = Vehicle::new(0, VehicleClass::Car, turns.into(), None, 0.5, 0.0);
        let Onward::Into(onto) = streets.onward(&vehicle, 0, lane("E1", 0)) else {
            panic!("lane 0 of E1 turns off");
        };
        assert_eq!(streets.lane(onto).link, link("off_R1").0);
        for number in 1..5 {
            assert_eq!(streets.onward(&vehicle, 0, lane("E1", number)), Onward::Nowhere);
        }
        assert_eq!(streets.onward(&vehicle, 1, lane("off_R1", 1)), Onward::Exit);
        // Beside the right-most lane lies nothing, nor beside the left-most.
        assert_eq!(streets.beside(lane("E1", 0), -1), None);
        assert_eq!(streets.beside(lane("E1", 0), 1), Some(lane("E1", 1)));
        assert_eq!(streets.beside(lane("E1", 4), 1), None);
    }

    #[test]
    fn costs_count_the_changes_of_two_links() {
        // Only lane 0 of E1 turns off.
        assert_eq!(lane_costs(&["E1", "off_R1"]), [0, 1, 2, 3, 4]);
        // All lanes of E2 go straight, but lane 0 of E3 must turn off.
        assert_eq!(lane_costs(&["E2", "E3", "E4", "E5"]), [1, 0, 0, 0, 0]);
        assert_eq!(lane_costs(&["E2", "E3", "off_R2"]), [0, 0, 1, 2, 3]);
        // The third turn is too far away to count.
        assert_eq!(lane_costs(&["E1", "E2", "E3", "off_R2"]), [0; 5]);
        assert_eq!(lane_costs(&["E7"]), [0; 4]);
    }
}
