//! The page: a template, its style and scripts, and all data as JSON.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::section::Section;
use crate::run_record::RunRecord;

const TEMPLATE: &str = include_str!("../../assets/report/page.html");
const STYLE: &str = include_str!("../../assets/report/page.css");
// Shared with the map.
const CHART_STYLE: &str = include_str!("../../../server/assets/uplot/uPlot.min.css");
const CHARTS: &str = include_str!("../../../server/assets/uplot/uPlot.iife.min.js");
const SCRIPTS: [&str; 4] = [
    include_str!("../../assets/report/elements.js"),
    include_str!("../../assets/report/charts.js"),
    include_str!("../../assets/report/time_space.js"),
    include_str!("../../assets/report/page.js"),
];

/// All that is shown.
#[derive(Serialize)]
pub(super) struct Page<'a> {
    runs: &'a [RunRecord],
    results: Vec<Section>,
}

impl<'a> Page<'a> {
    /// Refuses two sections of one name: links to them would not tell them apart.
    pub(super) fn new(runs: &'a [RunRecord], results: Vec<Section>) -> Result<Self> {
        for (at, section) in results.iter().enumerate() {
            let twice = results[..at].iter().any(|other| other.id == section.id);
            ensure!(!twice, "found two results named `{}`, expected one", section.id);
        }
        Ok(Self { runs, results })
    }

    /// The whole file.
    pub(super) fn html(&self) -> Result<String> {
        let data = in_script(&serde_json::to_string(self)?);
        let mut page = String::new();
        // Each part once and in order, so that what is filled in is never taken for a place.
        let mut rest = TEMPLATE;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").unwrap_or((after, ""));
            page += before;
            match name {
                "chart style" => page += CHART_STYLE,
                "style" => page += STYLE,
                "charts" => page += CHARTS,
                "scripts" => SCRIPTS.iter().for_each(|script| page += script),
                "data" => page += &data,
                "version" => page += env!("CARGO_PKG_VERSION"),
                other => {
                    let _ = write!(page, "{{{{{other}}}}}");
                }
            }
            rest = after;
        }
        Ok(page + rest)
    }
}

/// JSON that cannot end the script that holds it, nor begin a comment in it. Outside of strings JSON
/// has no `<`.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::super::section::Section;
    use super::*;

    fn section(id: &str, title: &str) -> Section {
        let (id, title) = (id.to_owned(), title.to_owned());
        let (charts, grids, notes) = (Vec::new(), Vec::new(), Vec::new());
        let (made, warnings, short) = (String::new(), Vec::new(), String::new());
        Section { id, title, short, made, warnings, charts, grids, notes }
    }

    #[test]
    fn names_cannot_break_out_of_the_data() {
        let title = "</script><script>alert(1)</script><!-- {{data}}";
        let page = Page::new(&[], vec![section("a", title)]).unwrap();
        let html = page.html().unwrap();
        assert!(!html.contains("<script>alert"));
        let (_, data) = html.split_once("type=\"application/json\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let value: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(value["results"][0]["title"], title);
        assert!(Page::new(&[], vec![section("a", ""), section("a", "")]).is_err());
    }

    #[test]
    fn the_page_asks_nobody_for_anything() {
        let html = Page::new(&[], Vec::new()).unwrap().html().unwrap();
        assert!(!html.contains("{{"), "every place is filled in");
        for address in ["http://", "https://", "src=", "@import", "url("] {
            let comments = ["https://github.com/leeoniya/uPlot"];
            let found = comments.iter().fold(html.clone(), |html, one| html.replace(one, ""));
            assert!(!found.contains(address), "{address}");
        }
    }
}
