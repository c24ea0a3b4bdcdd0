//! What a request asks for: its path and its fields.

use super::exports::Format;

/// Longest text of a field or a name.
const MOST: usize = 256;

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    Page(&'a str),
    Description,
    Map,
    Latest,
    Stream,
    History,
    Step(i64),
    Link(String),
    Export(Format),
}

impl<'a> Asked<'a> {
    /// None of an unknown path.
    pub fn of(path: &'a str) -> Option<Self> {
        let Some(path) = path.strip_prefix("/v1/") else {
            let name = path.strip_prefix('/')?;
            return Some(Asked::Page(if name.is_empty() { "index.html" } else { name }));
        };
        if let Some(step) = path.strip_prefix("history/") {
            return step.parse().ok().map(Asked::Step);
        }
        if let Some(link) = path.strip_prefix("links/") {
            return decoded(link, false).ok().map(Asked::Link);
        }
        Some(match path {
            "openapi.json" => Asked::Description,
            "map" => Asked::Map,
            "estimates" => Asked::Latest,
            "estimates/stream" => Asked::Stream,
            "history" => Asked::History,
            "exports/estimates.csv" => Asked::Export(Format::Csv),
            "exports/estimates.parquet" => Asked::Export(Format::Parquet),
            "exports/estimates.geojson" => Asked::Export(Format::GeoJson),
            _ => return None,
        })
    }

    /// The fields that it may have.
    pub fn fields(&self) -> &'static [&'static str] {
        match self {
            Asked::History => &["before_s"],
            Asked::Link(_) | Asked::Export(Format::Csv | Format::Parquet) => &["from_s", "to_s"],
            Asked::Export(Format::GeoJson) => &["step"],
            _ => &[],
        }
    }
}

/// The fields behind a question mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Refuses what cannot be read or stands there twice.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name, true)?, decoded(value, true)?);
            if fields.iter().any(|(found, _)| *found == name) {
                return Err(format!("{name}: found twice, expected once"));
            }
            fields.push((name, value));
        }
        Ok(Query(fields))
    }

    /// Refuses fields that are not among these.
    pub fn only(&self, expected: &[&str]) -> Result<(), String> {
        match self.0.iter().find(|(name, _)| !expected.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) if expected.is_empty() => {
                Err(format!("{name}: found a field, expected none"))
            }
            Some((name, _)) => {
                Err(format!("{name}: found an unknown field, expected {}", expected.join(", ")))
            }
        }
    }

    /// A number of a field, if it is there.
    pub fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let Some((_, value)) = self.0.iter().find(|(found, _)| found == name) else {
            return Ok(None);
        };
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| format!("{name}: found {value:?}, expected a number"))
    }
}

/// Text with its percent signs resolved.
fn decoded(text: &str, plus_is_space: bool) -> Result<String, String> {
    let wrong = || format!("found {text:?}, expected text of at most {MOST} bytes in UTF-8");
    if text.len() > 3 * MOST {
        return Err(wrong());
    }
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let byte = match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
                rest = after;
                let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
                u8::from_str_radix(digits, 16).map_err(|_| wrong())?
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        };
        bytes.push(byte);
    }
    if bytes.len() > MOST {
        return Err(wrong());
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_what_they_say_or_nothing() {
        assert_eq!(Asked::of("/"), Some(Asked::Page("index.html")));
        assert_eq!(Asked::of("/v1/history/-3"), Some(Asked::Step(-3)));
        assert_eq!(Asked::of("/v1/links/west%202%2F3"), Some(Asked::Link("west 2/3".into())));
        for wrong in
            ["/v1/", "/v1/history/x", "/v1/links/%", "/v1/links/%ff", "/v1/links/%zz", "v1"]
        {
            assert_eq!(Asked::of(wrong), None, "{wrong}");
        }
        let long = format!("/v1/links/{}", "x".repeat(MOST + 1));
        assert_eq!(Asked::of(&long), None);
    }

    #[test]
    fn fields_are_read_once_and_by_name() {
        let query = Query::parse("from_s=10.5&to_s=1e3").unwrap();
        assert_eq!(query.number("from_s"), Ok(Some(10.5)));
        assert_eq!(query.number("to_s"), Ok(Some(1000.0)));
        assert_eq!(query.number("step"), Ok(None));
        assert!(query.only(&["from_s", "to_s"]).is_ok());
        let error = query.only(&["step"]).unwrap_err();
        assert_eq!(error, "from_s: found an unknown field, expected step");
        let error = Query::parse("a=1&a=2").unwrap_err();
        assert_eq!(error, "a: found twice, expected once");
        for wrong in ["step=NaN", "step=inf", "step=", "step=one"] {
            assert!(Query::parse(wrong).unwrap().number("step").is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_description_has_all_paths_and_fields_and_no_others() {
        let description: serde_json::Value = serde_json::from_str(crate::serve::OPENAPI).unwrap();
        let mut found = Vec::new();
        let paths = description["paths"].as_object().unwrap();
        let example = |path: &String| path.replace("{step}", "7").replace("{link}", "E1");
        let examples: Vec<String> = paths.keys().map(example).collect();
        for ((path, methods), example) in paths.iter().zip(&examples) {
            let asked = Asked::of(example).unwrap();
            assert!(!matches!(asked, Asked::Page(_)), "{path}");
            let mut fields: Vec<&str> = Vec::new();
            for method in methods.as_object().unwrap().values() {
                let parameters = method["parameters"].as_array().unwrap().iter();
                let query = parameters.filter(|parameter| parameter["in"] == "query");
                fields.extend(query.map(|parameter| parameter["name"].as_str().unwrap()));
            }
            assert_eq!(fields, asked.fields(), "{path}");
            found.push(asked);
        }
        let all = [
            Asked::Description,
            Asked::Map,
            Asked::Latest,
            Asked::Stream,
            Asked::History,
            Asked::Step(7),
            Asked::Link("E1".into()),
            Asked::Export(Format::Csv),
            Asked::Export(Format::Parquet),
            Asked::Export(Format::GeoJson),
        ];
        assert_eq!(found.len(), all.len());
        assert!(all.iter().all(|asked| found.contains(asked)), "{found:?}");
    }
}
