//! Errors of the API: a status and a JSON document with a text.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::header::{
    ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use thiserror::Error;
use tracing::{error, warn};
use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use super::documents::ErrorDocument;
use super::{MAX_BODY_BYTES, REQUEST_TIMEOUT};
use crate::history::HistoryError;

/// Seconds after which a client may try again.
const RETRY_S: &str = "5";

/// Why a request fails.
#[derive(Debug, Error)]
pub(super) enum ApiError {
    #[error("{0}")]
    BadRequest(String),
    #[error("expected `Authorization: Bearer TOKEN` with this host's token")]
    WrongToken,
    #[error("read-only: this host has no token")]
    NoToken,
    #[error("{0}")]
    NotFound(String),
    #[error("the network file has no origin, so its place on Earth is unknown")]
    NoOrigin,
    #[error("found more than {max} rows, expected a shorter span of time")]
    TooManyRows { max: usize },
    #[error("too many requests; wait {wait_s:.1} s")]
    TooManyRequests { wait_s: f64 },
    #[error("host: found {0:?}, expected an address, localhost, or a name of readers.hosts")]
    OtherHost(String),
    #[error("no estimate yet")]
    NoEstimate,
    #[error("too many readers of the history; try again")]
    Busy,
    #[error("the history cannot be read just now")]
    History(#[from] HistoryError),
    #[error("internal error")]
    Internal(String),
}

impl ApiError {
    fn status(&self) -> StatusCode {
        match self {
            ApiError::BadRequest(_) => StatusCode::BAD_REQUEST,
            ApiError::WrongToken => StatusCode::UNAUTHORIZED,
            ApiError::NoToken => StatusCode::FORBIDDEN,
            ApiError::NotFound(_) => StatusCode::NOT_FOUND,
            ApiError::NoOrigin => StatusCode::CONFLICT,
            ApiError::TooManyRows { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            ApiError::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            ApiError::OtherHost(_) => StatusCode::MISDIRECTED_REQUEST,
            ApiError::NoEstimate | ApiError::Busy | ApiError::History(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ApiError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            ApiError::WrongToken => Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            ApiError::NoEstimate | ApiError::Busy => {
                Some((RETRY_AFTER, HeaderValue::from_static(RETRY_S)))
            }
            ApiError::TooManyRequests { wait_s } => {
                Some((RETRY_AFTER, HeaderValue::from(wait_s.ceil().max(1.0) as u64)))
            }
            _ => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // The cause goes to the log: it is of no use to clients, and may name machines.
        match &self {
            ApiError::History(cause) => warn!("reading the history: {cause}"),
            ApiError::Internal(cause) => error!("{cause}"),
            _ => {}
        }
        let document = ErrorDocument { error: self.to_string() };
        let mut response = (self.status(), Json(document)).into_response();
        response.headers_mut().extend(self.header());
        response
    }
}

/// Gives errors of axum and tower-http the same form.
pub(super) async fn describe(response: Response) -> Response {
    let status = response.status();
    let json = HeaderValue::from_static("application/json");
    if !(status.is_client_error() || status.is_server_error())
        || response.headers().get(CONTENT_TYPE) == Some(&json)
    {
        return response;
    }
    let allow = response.headers().get(ALLOW).and_then(|allow| allow.to_str().ok());
    let error = match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            format!("expected {}", allow.unwrap_or_default().replace(',', ", "))
        }
        StatusCode::PAYLOAD_TOO_LARGE => {
            format!("found a larger request body, expected at most {MAX_BODY_BYTES} bytes")
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            format!("found no answer within {} s; try again", REQUEST_TIMEOUT.as_secs())
        }
        _ => status.canonical_reason().unwrap_or_default().to_lowercase(),
    };
    let mut headers = response.headers().clone();
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_LENGTH);
    (status, headers, Json(ErrorDocument { error })).into_response()
}

/// Error responses, for the descriptions of routes.
macro_rules! error_responses {
    ($($name:ident $status:literal $description:literal;)*) => {$(
        #[doc = $description]
        pub(super) enum $name {}

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
                let schema = Ref::from_schema_name("Error");
                let content = ContentBuilder::new().schema(Some(schema)).build();
                let response = ResponseBuilder::new()
                    .description($description)
                    .content("application/json", content)
                    .build();
                BTreeMap::from([($status.to_owned(), response.into())])
            }
        }
    )*};
}

error_responses! {
    BadRequest "400" "A parameter is unknown, or cannot be read.";
    WrongToken "401" "The token is missing or wrong.";
    NoToken "403" "This host has no token: nothing can be changed.";
    NotFound "404" "Not stored, or not known.";
    NoOrigin "409" "The network file does not say where on Earth the network lies.";
    TooManyRows "413" "More rows than a file may have.";
    TooManyRequests "429" "This address has sent too many requests; see Retry-After.";
    Unavailable "503" "No estimate yet, too many readers, or the history does not answer; see Retry-After.";
}
