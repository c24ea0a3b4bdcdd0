//! Checks responses against an OpenAPI description: the part of JSON Schema that ours uses.

#![allow(dead_code, reason = "each test file is a program of its own and uses what it needs")]

use serde_json::Value;

pub(crate) struct Description(pub Value);

impl Description {
    pub(crate) fn paths(&self, method: &str) -> Vec<String> {
        let paths = self.0["paths"].as_object().expect("paths");
        let with = paths.iter().filter(|(_, methods)| methods.get(method).is_some());
        with.map(|(path, _)| path.clone()).collect()
    }

    /// Fails unless a status, a kind and a body are described for a path.
    pub(crate) fn check(&self, path: &str, method: &str, status: u16, kind: &str, body: &[u8]) {
        let responses = &self.0["paths"][path][method]["responses"];
        let response = &responses[status.to_string()];
        assert!(response.is_object(), "{path}: {status} is not described");
        let content = &response["content"][kind];
        assert!(content.is_object(), "{path}: {status}: {kind} is not described");
        if kind.ends_with("json") {
            let body: Value = serde_json::from_slice(body).expect("JSON");
            self.fits(&body, &content["schema"], path);
        }
    }

    fn fits(&self, value: &Value, schema: &Value, at: &str) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().expect("a name");
            let schema = &self.0["components"]["schemas"][name];
            assert!(schema.is_object(), "{at}: {reference} is not there");
            return self.fits(value, schema, at);
        }
        if let Some(variants) = schema["oneOf"].as_array() {
            // Those of an optional object: null, or the object.
            let variant =
                variants.iter().find(|schema| (schema["type"] == "null") == value.is_null());
            return self.fits(value, variant.unwrap_or(&Value::Null), at);
        }
        if schema.as_object().is_some_and(|schema| !schema.contains_key("type")) {
            return;
        }
        let kinds = match &schema["type"] {
            Value::String(kind) => vec![kind.as_str()],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            other => unreachable!("{at}: type {other}"),
        };
        assert!(
            kinds.iter().any(|kind| is_of(value, kind)),
            "{at}: found {value}, expected {kinds:?}"
        );
        if let Some(allowed) = schema["enum"].as_array() {
            assert!(allowed.contains(value), "{at}: found {value}, expected one of {allowed:?}");
        }
        if let Some(object) = value.as_object() {
            for required in schema["required"].as_array().into_iter().flatten() {
                let name = required.as_str().expect("a name");
                assert!(object.contains_key(name), "{at}: {name} is missing");
            }
            for (name, value) in object {
                let at = format!("{at}.{name}");
                match (&schema["properties"][name], &schema["additionalProperties"]) {
                    (Value::Null, Value::Bool(false)) => unreachable!("{at} is not described"),
                    (Value::Null, Value::Null) => {}
                    (Value::Null, schema) | (schema, _) => self.fits(value, schema, &at),
                }
            }
        }
        for value in value.as_array().into_iter().flatten() {
            self.fits(value, &schema["items"], &format!("{at}[]"));
        }
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => false,
    }
}
