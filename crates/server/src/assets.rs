//! The files of the page, which are part of the program.

use std::io::Write as _;
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};
use flate2::Compression;
use flate2::write::GzEncoder;
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

/// Where files are whose names have their version: another version has another name.
const VERSIONED: &str = "/lib/";

pub(crate) const ASSETS: [Asset; 24] = [
    asset("/", HTML, asset!("map/index.html")),
    asset("/index.html", HTML, asset!("map/index.html")),
    asset("/map.css", CSS, asset!("map/map.css")),
    asset("/app.js", SCRIPT, asset!("map/app.js")),
    asset("/alarms.js", SCRIPT, asset!("map/alarms.js")),
    asset("/centre.js", SCRIPT, asset!("map/centre.js")),
    asset("/chart.js", SCRIPT, asset!("map/chart.js")),
    asset("/estimates.js", SCRIPT, asset!("map/estimates.js")),
    asset("/network.js", SCRIPT, asset!("map/network.js")),
    asset("/panel.js", SCRIPT, asset!("map/panel.js")),
    asset("/route.js", SCRIPT, asset!("map/route.js")),
    asset("/scale.js", SCRIPT, asset!("map/scale.js")),
    asset("/search.js", SCRIPT, asset!("map/search.js")),
    asset("/state.js", SCRIPT, asset!("map/state.js")),
    asset("/table.js", SCRIPT, asset!("map/table.js")),
    asset("/timeline.js", SCRIPT, asset!("map/timeline.js")),
    asset("/view.js", SCRIPT, asset!("map/view.js")),
    asset("/icon.svg", "image/svg+xml", asset!("map/icon.svg")),
    asset("/uplot.css", CSS, asset!("uplot/uPlot.min.css")),
    asset("/uplot.js", SCRIPT, asset!("uplot/uPlot.iife.min.js")),
    asset("/lib/maplibre-gl-6.17.0.css", CSS, asset!("maplibre/maplibre-gl.css")),
    asset("/lib/maplibre-gl-6.17.0.mjs", SCRIPT, asset!("maplibre/maplibre-gl.mjs")),
    asset("/lib/maplibre-gl-worker-6.17.0.mjs", SCRIPT, asset!("maplibre/maplibre-gl-worker.mjs")),
    asset("/lib/pmtiles-4.5.0.js", SCRIPT, asset!("pmtiles/pmtiles.js")),
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

    /// How long browsers may use it without asking.
    pub(crate) fn cache_control(&self) -> HeaderValue {
        HeaderValue::from_static(if self.path.starts_with(VERSIONED) {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        })
    }
}

/// A text that stays as it is while the program runs: it is compressed once, when somebody asks for it first.
pub(crate) struct FixedText {
    plain: Bytes,
    gzip: OnceLock<Bytes>,
}

impl FixedText {
    pub(crate) fn new(plain: impl Into<Bytes>) -> Self {
        FixedText { plain: plain.into(), gzip: OnceLock::new() }
    }

    /// The text as a client accepts it, with the headers that say so.
    pub(crate) fn body(&self, asked: &HeaderMap) -> (HeaderMap, Bytes) {
        let mut headers = HeaderMap::new();
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        let accepted = asked.get(ACCEPT_ENCODING).and_then(|accepted| accepted.to_str().ok());
        if !accepted.unwrap_or_default().split(',').any(|coding| coding.trim() == "gzip") {
            return (headers, self.plain.clone());
        }
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let compressed = self.gzip.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            // Cannot fail: the output is in memory.
            let _ = encoder.write_all(&self.plain);
            encoder.finish().unwrap_or_default().into()
        });
        (headers, compressed.clone())
    }
}
