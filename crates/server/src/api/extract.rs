//! Extractors: parameters of a request, with errors in the API's form.

use std::borrow::Cow;
use std::error::Error as _;

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use super::App;
use super::error::ApiError;

/// Times further from 1970 than thirty million years are refused.
const MAX_TIME_S: f64 = 1e15;
/// Links of a route.
pub(super) const MAX_ROUTE_LINKS: usize = 200;

/// Query parameters.
pub(super) struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(rejection) => {
                let cause = rejection.source().map(ToString::to_string);
                Err(ApiError::BadRequest(cause.unwrap_or_else(|| rejection.body_text())))
            }
        }
    }
}

/// Parameters in the path. What cannot be read is not found.
pub(super) struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Path(path)),
            Err(_) => {
                let Ok(uri) = OriginalUri::from_request_parts(parts, state).await;
                Err(not_found(&uri))
            }
        }
    }
}

/// The error of an unknown path.
pub(super) fn not_found(OriginalUri(uri): &OriginalUri) -> ApiError {
    ApiError::NotFound(format!("{}: not found; see /v1/openapi.json", uri.path()))
}

/// The request has this host's token.
pub(super) struct Authorized;

impl FromRequestParts<App> for Authorized {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match &app.token {
            None => Err(ApiError::NoToken),
            Some(token) if token.is_in(&parts.headers) => Ok(Authorized),
            Some(_) => Err(ApiError::WrongToken),
        }
    }
}

/// No parameters are allowed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParameters {}

/// A span of time.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SpanQuery {
    /// Steps that end after this time, in seconds.
    #[serde(default, deserialize_with = "time")]
    pub from_s: Option<f64>,
    /// Steps that begin before this time, in seconds; default: up to the newest.
    #[serde(default, deserialize_with = "time")]
    pub to_s: Option<f64>,
}

/// One step.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StepQuery {
    /// The step; default: the newest.
    #[serde(default, deserialize_with = "step")]
    pub step: Option<i64>,
}

/// What to delete.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteQuery {
    /// Steps before the one of this time, in seconds, are deleted.
    #[serde(deserialize_with = "time")]
    #[param(value_type = f64, required = true)]
    pub before_s: Option<f64>,
}

/// A route, link by link.
#[derive(Debug, Default)]
pub(super) struct RouteQuery {
    pub links: Vec<String>,
    pub span: SpanQuery,
}

impl RouteQuery {
    /// From pairs of names and values: a name may be there more than once, which serde's structures do not allow.
    pub(super) fn new(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut query = RouteQuery::default();
        for (name, value) in pairs {
            let time = || {
                let wrong = |error| ApiError::BadRequest(format!("{name}: {error}"));
                parse_time(&value).map(Some).map_err(wrong)
            };
            let span = &mut query.span;
            match name.as_str() {
                "link" => query.links.push(value),
                "from_s" if span.from_s.is_none() => span.from_s = time()?,
                "to_s" if span.to_s.is_none() => span.to_s = time()?,
                "from_s" | "to_s" => {
                    return Err(ApiError::BadRequest(format!("duplicate field `{name}`")));
                }
                _ => {
                    let text = "expected `link`, `from_s` or `to_s`";
                    return Err(ApiError::BadRequest(format!("unknown field `{name}`, {text}")));
                }
            }
        }
        if !(1..=MAX_ROUTE_LINKS).contains(&query.links.len()) {
            let found = query.links.len();
            let text = format!("link: found {found} links, expected 1 to {MAX_ROUTE_LINKS}");
            return Err(ApiError::BadRequest(text));
        }
        Ok(query)
    }
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    parse_time(&text).map(Some).map_err(D::Error::custom)
}

fn parse_time(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(time) if time.abs() <= MAX_TIME_S => Ok(time),
        Ok(time) if time.is_finite() => Err(format!("found {time:e}, expected seconds since 1970")),
        _ => Err(format!("found {text:?}, expected a number")),
    }
}

fn step<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    let wrong = |_| D::Error::custom(format!("found {text:?}, expected a whole number"));
    text.parse().map(Some).map_err(wrong)
}
