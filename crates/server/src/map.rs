//! The network as the page draws it.

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use traffic::{Network, Point};

use super::record::{About, KM_H_PER_M_S, units};

/// A basemap from elsewhere, if one is configured.
#[derive(Clone, Debug, Serialize)]
pub struct Tiles {
    /// With `{z}`, `{x}` and `{y}`.
    pub url: String,
    pub attribution: String,
    /// Scheme and host: the one place besides its own that the page may load pictures from.
    #[serde(skip)]
    pub origin: String,
}

impl Tiles {
    pub fn new(url: &str, attribution: &str) -> Result<Self> {
        let parts = url.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme));
        let host = parts.and_then(|(_, rest)| rest.split('/').next()).unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        ensure!(
            !host.is_empty()
                && host.bytes().all(plain)
                && ["{z}", "{x}", "{y}"].iter().all(|part| url.contains(part)),
            "publish.tiles: found {url:?}, expected https://HOST/{{z}}/{{x}}/{{y}}.png"
        );
        let scheme = parts.map(|(scheme, _)| scheme).unwrap_or_default();
        let origin = format!("{scheme}://{host}");
        Ok(Tiles { url: url.into(), attribution: attribution.into(), origin })
    }
}

/// `/v1/map`.
pub struct MapDocument(Value);

impl MapDocument {
    pub fn of(about: &About, live: bool, history: bool, tiles: Option<Tiles>) -> Self {
        let network = &about.network;
        let links: Vec<Value> = network.link_ids().map(|id| link(network, id)).collect();
        MapDocument(json!({
            "name": network.name(),
            "network_hash": about.network_hash,
            "origin": network.parts().origin,
            "step_s": about.step_s,
            "target": about.target,
            "guests": about.guests,
            "interval_percent": about.interval,
            "live": live,
            "history": history,
            "tiles": tiles,
            "units": units(),
            "links": links,
        }))
    }

    pub fn text(&self) -> String {
        self.0.to_string()
    }
}

fn link(network: &Network, id: traffic::LinkId) -> Value {
    let link = network.link(id);
    let next: Vec<&str> = network
        .outgoing(id)
        .iter()
        .map(|&turn| &*network.link(network.turn(turn).to).name)
        .collect();
    json!({
        "link": link.name,
        "lanes": link.lanes,
        "length_m": link.length.get(),
        "limit_km_h": link.speed.get() * KM_H_PER_M_S,
        "shape": link.shape,
        "next": next,
    })
}

/// Longitude and latitude of a line; none where the network does not say where it lies.
pub fn places(network: &Network, shape: &[Point]) -> Option<Vec<[f64; 2]>> {
    let plane = network.plane()?;
    let place = |point: &Point| {
        let place = plane.place(*point);
        [place.lon, place.lat]
    };
    Some(shape.iter().map(place).collect())
}
