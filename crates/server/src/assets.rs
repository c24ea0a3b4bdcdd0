//! The files of the page, which are part of the program.

use axum::http::HeaderValue;
use sha2::{Digest, Sha256};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal) => {
        include_str!(concat!("../assets/", $path))
    };
}

/// One file.
#[derive(Clone, Copy)]
pub(crate) struct Asset {
    /// Where it is served.
    pub path: &'static str,
    pub content_type: &'static str,
    pub text: &'static str,
}

const fn asset(path: &'static str, content_type: &'static str, text: &'static str) -> Asset {
    Asset { path, content_type, text }
}

pub(crate) const ASSETS: [Asset; 13] = [
    asset("/", HTML, asset!("map/index.html")),
    asset("/index.html", HTML, asset!("map/index.html")),
    asset("/map.css", CSS, asset!("map/map.css")),
    asset("/app.js", SCRIPT, asset!("map/app.js")),
    asset("/basemap.js", SCRIPT, asset!("map/basemap.js")),
    asset("/chart.js", SCRIPT, asset!("map/chart.js")),
    asset("/drawing.js", SCRIPT, asset!("map/drawing.js")),
    asset("/scale.js", SCRIPT, asset!("map/scale.js")),
    asset("/table.js", SCRIPT, asset!("map/table.js")),
    asset("/timeline.js", SCRIPT, asset!("map/timeline.js")),
    asset("/icon.svg", "image/svg+xml", asset!("map/icon.svg")),
    asset("/uplot.css", CSS, asset!("uplot/uPlot.min.css")),
    asset("/uplot.js", SCRIPT, asset!("uplot/uPlot.iife.min.js")),
];

impl Asset {
    /// Its validator; weak, because the same text may be sent compressed.
    pub(crate) fn etag(&self) -> HeaderValue {
        let digest: [u8; 32] = Sha256::digest(self.text.as_bytes()).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        // Cannot fail: hexadecimal digits are allowed in a header.
        HeaderValue::try_from(format!("W/\"{number:016x}\""))
            .unwrap_or(HeaderValue::from_static("W/\"0\""))
    }
}
