//! The files of the page, which the program carries in itself.

use hyper::header::HeaderValue;
use sha2::{Digest, Sha256};

use training::hexadecimal;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal) => {
        include_str!(concat!("../../assets/", $path))
    };
}

const FILES: [(&str, &str, &str); 12] = [
    ("index.html", HTML, asset!("map/index.html")),
    ("map.css", CSS, asset!("map/map.css")),
    ("app.js", SCRIPT, asset!("map/app.js")),
    ("basemap.js", SCRIPT, asset!("map/basemap.js")),
    ("chart.js", SCRIPT, asset!("map/chart.js")),
    ("drawing.js", SCRIPT, asset!("map/drawing.js")),
    ("scale.js", SCRIPT, asset!("map/scale.js")),
    ("table.js", SCRIPT, asset!("map/table.js")),
    ("timeline.js", SCRIPT, asset!("map/timeline.js")),
    ("icon.svg", "image/svg+xml", asset!("map/icon.svg")),
    ("uplot.css", CSS, asset!("uplot/uPlot.min.css")),
    ("uplot.js", SCRIPT, asset!("uplot/uPlot.iife.min.js")),
];

/// One file.
pub struct Page {
    pub kind: &'static str,
    pub text: &'static str,
    /// Tells versions apart.
    pub tag: HeaderValue,
}

/// All files, by name.
pub struct Pages(Vec<(&'static str, Page)>);

impl Pages {
    pub fn new() -> Self {
        let page = |(name, kind, text): (&'static str, &'static str, &'static str)| {
            let digest = hexadecimal(&Sha256::digest(text.as_bytes())[..8]);
            let tag = HeaderValue::try_from(format!("\"{digest}\""));
            let tag = tag.unwrap_or(HeaderValue::from_static("\"0\""));
            (name, Page { kind, text, tag })
        };
        Pages(FILES.map(page).into())
    }

    pub fn get(&self, name: &str) -> Option<&Page> {
        self.0.iter().find(|(found, _)| *found == name).map(|(_, page)| page)
    }
}
