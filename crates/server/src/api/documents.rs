//! The documents of the API. The OpenAPI description is generated from these types.

use serde::Serialize;
use traffic::{LinkId, Network, Step};
use utoipa::ToSchema;

use crate::estimate::{
    Estimate, KM_H_PER_M_S, LinkEstimate, Participants, Participation, SeriesInfo, Target,
};
use crate::history::{LinkStep, StepRange};
use crate::tiles::Tiles;

/// Units of all numbers.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Units {
    #[schema(value_type = String)]
    density: &'static str,
    #[schema(value_type = String)]
    flow: &'static str,
    #[schema(value_type = String)]
    speed: &'static str,
}

impl Units {
    const ALL: Units = Units { density: "veh/km/lane", flow: "veh/min/lane", speed: "km/h" };
}

/// An estimate of all links in one step.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Estimate)]
pub(crate) struct EstimateDocument<'a> {
    // The first field: the feed replaces it in the text.
    /// Seconds since the step ended, by the host's clock; null for stored estimates.
    #[schema(required)]
    age_s: Option<f64>,
    /// Number of the step since the epoch that the parties agree on.
    step: i64,
    begin_s: f64,
    end_s: f64,
    /// When the estimate was made, in seconds since 1970.
    made_s: f64,
    /// How long after the end of the step it was made.
    latency_s: f64,
    /// Whether it was on disk before it was published, so that it survives a crash.
    stored: bool,
    /// Whether all guests took part.
    complete: bool,
    #[schema(value_type = BTreeMap<String, Participation>)]
    participants: &'a Participants,
    target: Target,
    /// Nominal coverage of the intervals in percent.
    #[schema(required)]
    interval_percent: Option<u8>,
    units: Units,
    links: Vec<LinkDocument<'a>>,
}

impl<'a> EstimateDocument<'a> {
    /// Without an age.
    pub(crate) fn new(info: &'a SeriesInfo, estimate: &'a Estimate, stored: bool) -> Self {
        let step = estimate.step.0;
        let links = info.network.links().iter().zip(estimate.links());
        EstimateDocument {
            age_s: None,
            step,
            begin_s: step as f64 * info.step_s,
            end_s: (step + 1) as f64 * info.step_s,
            made_s: estimate.made_s,
            latency_s: estimate.latency_s,
            stored,
            complete: estimate.complete(),
            participants: &estimate.participants,
            target: info.target,
            interval_percent: estimate.intervals.as_ref().and(info.interval),
            units: Units::ALL,
            links: links.map(|(link, state)| LinkDocument::new(&link.name, &state)).collect(),
        }
    }
}

/// An estimate of all links in one step in few bytes, for pages: without intervals, numbers rounded.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PackedEstimate)]
pub(crate) struct PackedDocument<'a> {
    // The first field: the feed replaces it in the text.
    /// Seconds since the step ended, by the host's clock; null for stored estimates.
    #[schema(required)]
    age_s: Option<f64>,
    step: i64,
    begin_s: f64,
    end_s: f64,
    made_s: f64,
    latency_s: f64,
    stored: bool,
    complete: bool,
    #[schema(value_type = BTreeMap<String, Participation>)]
    participants: &'a Participants,
    /// The step of the estimate that the numbers are differences to; null where they are the numbers themselves.
    #[schema(required)]
    base: Option<i64>,
    /// How many links there are, in the order of the map.
    links: usize,
    /// Base64 of raw deflate (RFC 1951) of 6 bytes a link: density and flow in tenths, speed in halves of km/h (65535: none),
    /// each as 16 bits, difference modulo 2^16 to the base, in zigzag form; of each quantity first all low bytes, then all high
    /// ones.
    numbers: String,
}

impl<'a> PackedDocument<'a> {
    /// Without an age.
    pub(crate) fn new(
        info: &SeriesInfo,
        estimate: &'a Estimate,
        stored: bool,
        base: Option<Step>,
        numbers: String,
    ) -> Self {
        let step = estimate.step.0;
        PackedDocument {
            age_s: None,
            step,
            begin_s: step as f64 * info.step_s,
            end_s: (step + 1) as f64 * info.step_s,
            made_s: estimate.made_s,
            latency_s: estimate.latency_s,
            stored,
            complete: estimate.complete(),
            participants: &estimate.participants,
            base: base.map(|base| base.0),
            links: estimate.states.len(),
            numbers,
        }
    }
}

/// A link in an estimate.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LinkState)]
pub(crate) struct LinkDocument<'a> {
    #[schema(value_type = String)]
    link: &'a str,
    density: f64,
    flow: f64,
    /// Null for a link without vehicles.
    #[schema(required)]
    speed: Option<f64>,
    /// Lower and upper bound; missing where the model has no intervals, or a guest was missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    density_interval: Option<[f64; 2]>,
    /// Lower and upper bound; missing where the model has no intervals, or a guest was missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    flow_interval: Option<[f64; 2]>,
}

impl<'a> LinkDocument<'a> {
    fn new(link: &'a str, estimate: &LinkEstimate) -> Self {
        LinkDocument {
            link,
            density: estimate.state.density.get(),
            flow: estimate.state.flow.get(),
            speed: estimate.speed_km_h(),
            density_interval: estimate.interval.map(|interval| interval.density),
            flow_interval: estimate.interval.map(|interval| interval.flow),
        }
    }
}

/// Which steps are stored.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = History)]
pub(crate) struct HistoryDocument {
    pub step_s: f64,
    /// How far back estimates are kept; null if this is not known here.
    #[schema(required)]
    pub keep_s: Option<f64>,
    /// How many steps are stored.
    pub steps: i64,
    /// Runs of consecutive steps that are stored.
    pub stretches: Vec<StepRange>,
}

/// One link over time.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LinkSeries)]
pub(crate) struct LinkSeriesDocument {
    link: String,
    step_s: f64,
    #[schema(required)]
    interval_percent: Option<u8>,
    units: Units,
    moments: Vec<LinkStepDocument>,
}

impl LinkSeriesDocument {
    pub(crate) fn new(info: &SeriesInfo, link: String, steps: Vec<LinkStep>) -> Self {
        let moments = steps.into_iter().map(|step| LinkStepDocument::new(info, step)).collect();
        LinkSeriesDocument {
            link,
            step_s: info.step_s,
            interval_percent: info.interval,
            units: Units::ALL,
            moments,
        }
    }
}

/// One step of a link.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LinkStep)]
struct LinkStepDocument {
    step: i64,
    end_s: f64,
    density: f64,
    flow: f64,
    /// Null for a link without vehicles.
    #[schema(required)]
    speed: Option<f64>,
    #[schema(value_type = BTreeMap<String, Participation>)]
    participants: Participants,
    /// Lower and upper bound; missing where the model has no intervals, or a guest was missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    density_interval: Option<[f64; 2]>,
    /// Lower and upper bound; missing where the model has no intervals, or a guest was missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    flow_interval: Option<[f64; 2]>,
}

impl LinkStepDocument {
    fn new(info: &SeriesInfo, LinkStep { step, link, participants }: LinkStep) -> Self {
        LinkStepDocument {
            step: step.0,
            end_s: (step.0 + 1) as f64 * info.step_s,
            density: link.state.density.get(),
            flow: link.state.flow.get(),
            speed: link.speed_km_h(),
            participants,
            density_interval: link.interval.map(|interval| interval.density),
            flow_interval: link.interval.map(|interval| interval.flow),
        }
    }
}

/// Speeds along a route.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Route)]
pub(crate) struct RouteDocument {
    step_s: f64,
    /// The stored steps of the time that was asked for.
    steps: Vec<i64>,
    links: Vec<RouteLink>,
}

/// A link of a route.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RouteLink {
    link: String,
    length_m: f64,
    /// Of each step, in km/h to the tenth; null where there are no vehicles.
    speed: Vec<Option<f64>>,
    /// Of each step, in veh/km/lane to the tenth.
    density: Vec<f64>,
}

impl RouteDocument {
    pub(crate) fn new(
        info: &SeriesInfo,
        links: &[LinkId],
        series: &[(Step, Vec<LinkEstimate>)],
    ) -> Self {
        let tenths = |number: f64| (number * 10.0).round() / 10.0;
        let link = |(place, &id): (usize, &LinkId)| {
            let link = info.network.link(id);
            let states = series.iter().filter_map(|(_, states)| states.get(place));
            RouteLink {
                link: link.name.clone(),
                length_m: link.length.get(),
                speed: states.clone().map(|state| state.speed_km_h().map(tenths)).collect(),
                density: states.map(|state| tenths(state.state.density.get())).collect(),
            }
        };
        RouteDocument {
            step_s: info.step_s,
            steps: series.iter().map(|(step, _)| step.0).collect(),
            links: links.iter().enumerate().map(link).collect(),
        }
    }
}

/// How many steps were deleted.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Forgotten)]
pub(crate) struct DeletedDocument {
    pub forgotten_steps: u64,
}

/// The network and what is estimated on it.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Map)]
pub(crate) struct MapDocument {
    name: String,
    network_hash: String,
    /// Where x = y = 0 lies on the Earth, if known.
    #[schema(required)]
    origin: Option<Origin>,
    step_s: f64,
    target: Target,
    guests: Vec<String>,
    #[schema(required)]
    interval_percent: Option<u8>,
    /// Whether new estimates are expected.
    live: bool,
    /// Whether estimates are stored.
    history: bool,
    #[schema(required)]
    tiles: Option<Tiles>,
    units: Units,
    links: Vec<MapLink>,
}

/// A place on the Earth in degrees (WGS 84).
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Origin {
    lat: f64,
    lon: f64,
}

/// A link on the map.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MapLink {
    link: String,
    lanes: u32,
    length_m: f64,
    limit_km_h: f64,
    /// Metres east and north of the origin, to the centimetre.
    shape: Vec<[f64; 2]>,
    /// Links that can be reached from its end.
    next: Vec<String>,
}

impl MapDocument {
    pub(crate) fn new(info: &SeriesInfo, live: bool, history: bool, tiles: Option<&Tiles>) -> Self {
        let network = &info.network;
        let origin = network.parts().origin.map(|place| Origin { lat: place.lat, lon: place.lon });
        MapDocument {
            name: network.name().to_owned(),
            network_hash: info.network_hash.clone(),
            origin,
            step_s: info.step_s,
            target: info.target,
            guests: info.guests.clone(),
            interval_percent: info.interval,
            live,
            history,
            tiles: tiles.cloned(),
            units: Units::ALL,
            links: network.link_ids().map(|id| MapLink::new(network, id)).collect(),
        }
    }
}

/// Thousands of lines need no more.
fn centimetres(metres: f64) -> f64 {
    (metres * 100.0).round() / 100.0
}

impl MapLink {
    fn new(network: &Network, id: LinkId) -> Self {
        let link = network.link(id);
        let turns = network.outgoing(id).iter();
        MapLink {
            link: link.name.clone(),
            lanes: link.lanes.into(),
            length_m: link.length.get(),
            limit_km_h: link.speed.get() * KM_H_PER_M_S,
            shape: link.shape.iter().map(|point| [point.x, point.y].map(centimetres)).collect(),
            next: turns.map(|&turn| network.link(network.turn(turn).to).name.clone()).collect(),
        }
    }
}

/// One step as GeoJSON (RFC 7946).
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FeatureCollection)]
pub(crate) struct GeoJsonDocument {
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: &'static str,
    features: Vec<Feature>,
    #[schema(value_type = BTreeMap<String, Participation>)]
    participants: Participants,
}

/// A link with its line on the Earth.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Feature {
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: &'static str,
    geometry: LineString,
    properties: FeatureProperties,
}

/// Longitudes and latitudes.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LineString {
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: &'static str,
    coordinates: Vec<[f64; 2]>,
}

/// The state of a link, with the column names of the tables.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FeatureProperties {
    link: String,
    lanes: u32,
    step: i64,
    begin_s: f64,
    density_veh_km_lane: f64,
    flow_veh_min_lane: f64,
    #[schema(required)]
    speed_km_h: Option<f64>,
    #[schema(required)]
    density_low: Option<f64>,
    #[schema(required)]
    density_high: Option<f64>,
    #[schema(required)]
    flow_low: Option<f64>,
    #[schema(required)]
    flow_high: Option<f64>,
}

impl GeoJsonDocument {
    /// None if the network has no origin.
    pub(crate) fn new(info: &SeriesInfo, estimate: Estimate) -> Option<Self> {
        let plane = info.network.plane()?;
        let place = |point: &traffic::Point| {
            let place = plane.place(*point);
            [place.lon, place.lat]
        };
        let feature = |(link, state): (&traffic::Link, LinkEstimate)| Feature {
            kind: "Feature",
            geometry: LineString {
                kind: "LineString",
                coordinates: link.shape.iter().map(place).collect(),
            },
            properties: FeatureProperties {
                link: link.name.clone(),
                lanes: link.lanes.into(),
                step: estimate.step.0,
                begin_s: estimate.step.0 as f64 * info.step_s,
                density_veh_km_lane: state.state.density.get(),
                flow_veh_min_lane: state.state.flow.get(),
                speed_km_h: state.speed_km_h(),
                density_low: state.interval.map(|interval| interval.density[0]),
                density_high: state.interval.map(|interval| interval.density[1]),
                flow_low: state.interval.map(|interval| interval.flow[0]),
                flow_high: state.interval.map(|interval| interval.flow[1]),
            },
        };
        let features = info.network.links().iter().zip(estimate.links()).map(feature).collect();
        let participants = estimate.participants.clone();
        Some(GeoJsonDocument { kind: "FeatureCollection", features, participants })
    }
}

/// A file that is not text.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
pub(crate) struct BinaryFile(
    #[expect(dead_code, reason = "stands for the body in the description")] Vec<u8>,
);

/// What went wrong.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Error)]
pub(crate) struct ErrorDocument {
    /// What was found and what was expected.
    pub error: String,
}
