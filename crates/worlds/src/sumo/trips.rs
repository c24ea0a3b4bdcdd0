//! Vehicles and loops as SUMO's route and additional files.

use std::io::{self, Write};

use sensing::sumo::{OUTSIDE, edge_names, loop_names};
use traffic::{LinkId, Movement, Network, Seconds, VehicleClass};

use crate::departure::{Departure, Stop};
use crate::driving::{DECELERATION, Driving, REACTION_TIME};

/// What the shortest stop of SUMO spans, in metres.
const STOP_SPAN: f64 = 5.0;

/// Writes the vehicles.
pub(super) fn write_trips(
    network: &Network,
    departures: impl Iterator<Item = Departure>,
    out: &mut impl Write,
) -> io::Result<()> {
    let edges = edge_names(network);
    writeln!(out, "<routes>")?;
    for class in VehicleClass::ALL {
        write_type(class, out)?;
    }
    for departure in departures {
        write!(
            out,
            "  <vehicle id=\"{}\" type=\"{}\" depart=\"{:.2}\" departLane=\"best\" \
             departSpeed=\"max\"><route edges=\"",
            departure.vehicle.0,
            departure.class.name(),
            departure.time.get()
        )?;
        for (leg, link) in departure.route.iter().enumerate() {
            write!(out, "{}{}", if leg == 0 { "" } else { " " }, edges[link.index()])?;
        }
        if let Some(&last) = departure.route.last()
            && ends_at_signal(network, last)
        {
            write!(out, " {}{OUTSIDE}", edges[last.index()])?;
        }
        write!(out, "\"/>")?;
        if let Some(stop) = departure.stop {
            write_stop(network, &edges, stop, out)?;
        }
        writeln!(out, "</vehicle>")?;
    }
    writeln!(out, "</routes>")
}

/// Everyone is a passenger car to SUMO's permissions, so that every lane is open to all, as in the
/// built-in world.
fn write_type(class: VehicleClass, out: &mut impl Write) -> io::Result<()> {
    let Driving { length, min_gap, acceleration, imperfection, speed_deviation } =
        Driving::of(class);
    writeln!(
        out,
        "  <vType id=\"{}\" length=\"{length}\" minGap=\"{min_gap}\" accel=\"{acceleration}\" \
         decel=\"{DECELERATION}\" tau=\"{REACTION_TIME}\" sigma=\"{imperfection}\" \
         speedFactor=\"normc(1,{speed_deviation},0.75,1.25)\"/>",
        class.name()
    )
}

fn write_stop(
    network: &Network,
    edges: &[String],
    stop: Stop,
    out: &mut impl Write,
) -> io::Result<()> {
    let link = network.link(stop.link);
    let end = (stop.position - link.junction).get().max(1.0);
    write!(
        out,
        "<stop lane=\"{}_{}\" startPos=\"{:.2}\" endPos=\"{end:.2}\" duration=\"{}\"/>",
        edges[stop.link.index()],
        stop.lane,
        (end - STOP_SPAN).max(0.0),
        stop.duration.get()
    )
}

/// Writes the loops: one SUMO detector a lane, all into one file.
pub(super) fn write_loops(
    network: &Network,
    interval: Seconds,
    counts_file: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let edges = edge_names(network);
    writeln!(out, "<additional>")?;
    for (detector, name) in network.loops().iter().zip(loop_names(network)) {
        let link = network.link(detector.link);
        // A loop inside the junction is moved to its end: SUMO has no detectors there.
        let position = (detector.position - link.junction).get().max(0.1);
        for lane in 0..link.lanes {
            writeln!(
                out,
                "  <inductionLoop id=\"{name}_{lane}\" lane=\"{}_{lane}\" pos=\"{position:.2}\" \
                 period=\"{}\" file=\"{counts_file}\"/>",
                edges[detector.link.index()],
                interval.get()
            )?;
        }
    }
    writeln!(out, "</additional>")
}

fn ends_at_signal(network: &Network, link: LinkId) -> bool {
    network.signal_of(Movement { from: link, to: None }).is_some()
}
