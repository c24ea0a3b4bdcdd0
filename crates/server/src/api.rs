//! The page, and the API under `/v1`.
//!
//! Reading needs no token; what changes something does. The OpenAPI description is generated from the handlers and
//! their types, and checked in as `openapi.json`.

pub(crate) mod documents;
mod error;
mod exports;
mod extract;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Extension, OriginalUri, Request, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HOST, HeaderName, HeaderValue, IF_NONE_MATCH,
    RANGE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate};
use tower_http::compression::{CompressionLayer, CompressionLevel};
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;
use tracing::{debug, info, warn};
use traffic::{LinkId, Step};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::documents::{
    BinaryFile, DeletedDocument, ErrorDocument, EstimateDocument, GeoJsonDocument, HistoryDocument,
    LinkSeriesDocument, MapDocument, PackedDocument, RouteDocument,
};
use self::error::{
    ApiError, BadRequest, NoOrigin, NoToken, NotFound, TooManyRequests, TooManyRows, Unavailable,
    WrongToken,
};
use self::exports::{Format, MAX_ROWS};
use self::extract::{
    Authorized, DeleteQuery, NoParameters, Path, Query, RouteQuery, SpanQuery, StepQuery, not_found,
};
use crate::alarms::AlarmsDocument;
use crate::assets::{ASSETS, Asset, FixedText};
use crate::datex;
use crate::estimate::{Estimate, SeriesInfo};
use crate::feed::{EstimateFeed, Event};
use crate::history::{History, HistoryError, StepRange};
use crate::http_server::Connection;
use crate::packed::RoundedStates;
use crate::rate_limit::RateLimiter;
use crate::tiles::{ARCHIVE_PATH, Archive, Tiles};
use crate::token::Token;

/// No request needs a body.
const MAX_BODY_BYTES: usize = 4096;
/// Until a response begins: longer than PostgreSQL may take for a statement.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests that read the history at a time, and large responses at a time.
const MAX_READS: usize = 4;
const MAX_LARGE: usize = 2;
/// How long a request waits for one of these permits.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
/// A response from the history with more bytes holds one of the permits for large ones until it is sent.
const LARGE_BYTES: usize = 256 << 10;
/// Such a response is sent in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;
/// Missed estimates that a returning reader of the stream gets, and their bytes.
const MAX_MISSED: i64 = 360;
const MAX_MISSED_BYTES: usize = 1 << 20;
/// A comment is sent after this time without an event, so that proxies and clients keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How old a response about the stored steps may be.
const RANGES_MAX_AGE: Duration = Duration::from_secs(1);
/// Steps in a link's series.
const MAX_LINK_STEPS: i64 = 20_000;
/// Links times steps of a route.
const MAX_ROUTE_NUMBERS: i64 = 200_000;
const HOUR_S: f64 = 3600.0;
const DAY_S: f64 = 86_400.0;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What is served.
pub struct Site {
    /// What the estimates are of.
    pub info: Arc<SeriesInfo>,
    /// New estimates.
    pub feed: Arc<EstimateFeed>,
    /// Stored estimates.
    pub history: Option<Arc<dyn History>>,
    /// How long estimates are stored, if that is known.
    pub keep_s: Option<f64>,
    /// Whether new estimates are expected.
    pub live: bool,
    /// For requests that change something.
    pub token: Option<Token>,
    /// A basemap.
    pub tiles: Option<Tiles>,
    /// Names that readers know this server by, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Origins whose pages may read.
    pub origins: Vec<HeaderValue>,
}

type App = Arc<AppState>;

/// What handlers share.
struct AppState {
    info: Arc<SeriesInfo>,
    feed: Arc<EstimateFeed>,
    history: Option<Arc<dyn History>>,
    keep_s: Option<f64>,
    token: Option<Token>,
    map: FixedText,
    openapi: String,
    ranges: Mutex<Option<(Instant, Vec<StepRange>)>>,
    reads: Arc<Semaphore>,
    large: Arc<Semaphore>,
    archive: Option<Archive>,
    archive_reads: Arc<Semaphore>,
    kept: Mutex<Vec<FeedText>>,
    feed_texts: Arc<Semaphore>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "fedtse estimates",
        version = "1",
        description = "Density, flow and speed of every link of a network, step by step: the newest estimate and the stored history. Reading is open to everyone who can reach the address; changes need a token. Times are seconds since the epoch of the records.",
        license(name = "MIT", identifier = "MIT")
    ),
    components(schemas(ErrorDocument))
)]
struct Description;

/// The API's description in OpenAPI 3.1.
pub fn openapi_json() -> String {
    describe(&api(&Arc::new(RateLimiter::new(1.0, 1)), &[]).split_for_parts().1)
}

fn describe(openapi: &utoipa::openapi::OpenApi) -> String {
    // Cannot fail: the keys of all maps are strings.
    openapi.to_pretty_json().unwrap_or_default() + "\n"
}

/// All routes under `/v1`, each with its description.
fn api(limiter: &Arc<RateLimiter>, origins: &[HeaderValue]) -> OpenApiRouter<App> {
    let mut api = OpenApiRouter::new()
        .routes(routes!(get_openapi))
        .routes(routes!(get_map))
        .routes(routes!(get_latest))
        .routes(routes!(get_stream))
        .routes(routes!(get_changes))
        .routes(routes!(get_geojson_feed))
        .routes(routes!(get_datex_feed))
        .routes(routes!(get_history, delete_history))
        .routes(routes!(get_step))
        .routes(routes!(get_packed))
        .routes(routes!(get_link))
        .routes(routes!(get_route))
        .routes(routes!(get_alarms))
        .routes(routes!(get_alarm_stream))
        .routes(routes!(get_csv))
        .routes(routes!(get_parquet))
        .routes(routes!(get_geojson))
        .fallback(unknown_path)
        .layer(from_fn_with_state(Arc::clone(limiter), limit_rate));
    // Any page that a reader opens could read what that reader can reach: only those that are named may.
    if !origins.is_empty() {
        let origins = AllowOrigin::list(origins.iter().cloned());
        api = api.layer(CorsLayer::new().allow_origin(origins).allow_methods([Method::GET]));
    }
    let mut openapi = Description::openapi();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = openapi.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    OpenApiRouter::with_openapi(openapi).nest("/v1", api)
}

/// All routes, with the limits on requests.
pub(crate) fn router(site: Site, limiter: &Arc<RateLimiter>) -> Router {
    let Site { info, feed, history, keep_s, live, token, tiles, hosts, origins } = site;
    let tiles_origin = tiles.as_ref().map(|tiles| tiles.origin.as_str()).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; \
         connect-src 'self' {tiles_origin}; img-src 'self' data: blob: {tiles_origin}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy =
        HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let (api, openapi) = api(limiter, &origins).split_for_parts();
    let app = Arc::new(AppState {
        map: FixedText::new(
            to_json(&MapDocument::new(&info, live, history.is_some(), tiles.as_ref()))
                .unwrap_or_default(),
        ),
        openapi: describe(&openapi),
        info,
        feed,
        history,
        keep_s,
        token,
        ranges: Mutex::default(),
        reads: Arc::new(Semaphore::new(MAX_READS)),
        large: Arc::new(Semaphore::new(MAX_LARGE)),
        archive: tiles.and_then(|tiles| tiles.archive),
        archive_reads: Arc::new(Semaphore::new(MAX_READS)),
        kept: Mutex::default(),
        // One at a time: the others find what it has made.
        feed_texts: Arc::new(Semaphore::new(1)),
    });
    let pages = ASSETS.into_iter().fold(Router::new(), |pages, asset| {
        let (etag, text) = (asset.etag(), FixedText::new(asset.text));
        let page = Arc::new(Page { asset, etag, text });
        let answer = move |headers: HeaderMap, _: Query<NoParameters>| async move {
            page.response(&headers)
        };
        pages.route(asset.path, get(answer))
    });
    let pages = pages
        .route(ARCHIVE_PATH, get(get_archive))
        .fallback(unknown_path)
        .layer(from_fn_with_state(Arc::clone(limiter), limit_rate));
    // Compressed already.
    let compressed = NotForContentType::const_new("application/vnd.apache.parquet");
    let compression = CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(DefaultPredicate::new().and(compressed));
    let fixed = |name: HeaderName, value: &'static str| {
        SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
    };
    let permissions = "geolocation=(), camera=(), microphone=()";
    // A service of its own, because axum adds `Allow` to a response outside of a router's layers. From the inside out:
    Router::new()
        .fallback_service(api.merge(pages).with_state(app))
        .layer(from_fn_with_state(Arc::<[String]>::from(hosts), check_host))
        .layer(RequestBodyLimitLayer::new(MAX_BODY_BYTES))
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, REQUEST_TIMEOUT))
        .layer(map_response(error::describe))
        .layer(compression)
        .layer(SetResponseHeaderLayer::overriding(CONTENT_SECURITY_POLICY, policy))
        .layer(fixed(X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed(X_FRAME_OPTIONS, "DENY"))
        .layer(fixed(REFERRER_POLICY, "no-referrer"))
        .layer(fixed(HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
        .layer(fixed(HeaderName::from_static("permissions-policy"), permissions))
        .layer(SetResponseHeaderLayer::if_not_present(
            CACHE_CONTROL,
            HeaderValue::from_static("no-store"),
        ))
}

/// Refuses requests for other servers: a page may have its own name lead to the address of this one, and then read it as its
/// own origin (DNS rebinding). An address is nobody else's name.
async fn check_host(
    State(hosts): State<Arc<[String]>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let asked = request.uri().authority().map(Authority::as_str).or(header).unwrap_or_default();
    let authority = asked.parse::<Authority>().ok();
    let name = authority.as_ref().map(Authority::host).unwrap_or_default();
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let known = hosts.iter().map(String::as_str).chain(["localhost"]);
    if is_address || known.into_iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(next.run(request).await);
    }
    Err(ApiError::OtherHost(asked.chars().take(100).collect()))
}

async fn limit_rate(
    State(limiter): State<Arc<RateLimiter>>,
    Extension(connection): Extension<Connection>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    limiter
        .request(connection.peer.ip(), Instant::now())
        .map_err(|wait_s| ApiError::TooManyRequests { wait_s })?;
    Ok(next.run(request).await)
}

async fn unknown_path(uri: OriginalUri) -> ApiError {
    not_found(&uri)
}

/// A file of the page, ready to be sent.
struct Page {
    asset: Asset,
    etag: HeaderValue,
    text: FixedText,
}

impl Page {
    fn response(&self, asked: &HeaderMap) -> Response {
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(self.asset.content_type)),
            (ETAG, self.etag.clone()),
            (CACHE_CONTROL, self.asset.cache_control()),
        ];
        if asked.get(IF_NONE_MATCH) == Some(&self.etag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let (coding, text) = self.text.body(asked);
        (headers, coding, text).into_response()
    }
}

/// A range of bytes of the basemap's file; nobody gets all of it at once.
async fn get_archive(
    State(app): State<App>,
    headers: HeaderMap,
    uri: OriginalUri,
    _: Query<NoParameters>,
) -> Result<Response, ApiError> {
    let archive = app.archive.clone().ok_or_else(|| not_found(&uri))?;
    let asked = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let range = match archive.range(asked) {
        Ok(range) => range,
        Err(error) => {
            let headers = [(CONTENT_RANGE, archive.unsatisfied())];
            let body = Json(ErrorDocument { error });
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, headers, body).into_response());
        }
    };
    let permit = acquire(&app.archive_reads).await?;
    let etag = archive.etag.clone();
    let read = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        archive.read(range)
    });
    let failed = |error: &dyn std::fmt::Display| ApiError::Internal(format!("basemap: {error}"));
    let bytes = read.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    let headers = [
        (CONTENT_TYPE, "application/vnd.pmtiles".to_owned()),
        (CONTENT_RANGE, range.header()),
        (ETAG, etag),
        (ACCEPT_RANGES, "bytes".to_owned()),
        (CACHE_CONTROL, "no-cache".to_owned()),
    ];
    Ok((StatusCode::PARTIAL_CONTENT, headers, bytes).into_response())
}

/// This description
#[utoipa::path(get, path = "/openapi.json", responses(
    (status = 200, description = "OpenAPI 3.1.", content_type = "application/json", body = Object),
    BadRequest, TooManyRequests,
))]
async fn get_openapi(State(app): State<App>, _: Query<NoParameters>) -> Response {
    ([(CONTENT_TYPE, JSON)], app.openapi.clone()).into_response()
}

/// The network and what is estimated
#[utoipa::path(get, path = "/map", responses(
    (status = 200, description = "The network.", body = MapDocument),
    BadRequest, TooManyRequests,
))]
async fn get_map(State(app): State<App>, headers: HeaderMap, _: Query<NoParameters>) -> Response {
    let (headers, body) = app.map.body(&headers);
    ([(CONTENT_TYPE, JSON)], headers, body).into_response()
}

/// The latest estimate
#[utoipa::path(get, path = "/estimates", responses(
    (status = 200, description = "The latest estimate.", body = EstimateDocument),
    BadRequest, Unavailable, TooManyRequests,
))]
async fn get_latest(State(app): State<App>, _: Query<NoParameters>) -> Result<Response, ApiError> {
    let parts = app.feed.latest().ok_or(ApiError::NoEstimate)?;
    let length: usize = parts.iter().map(Bytes::len).sum();
    // The larger part is shared by all readers.
    let body = Body::from_stream(stream::iter(parts.map(Ok::<_, Infallible>)));
    Ok(([(CONTENT_TYPE, JSON), (CONTENT_LENGTH, length.into())], body).into_response())
}

/// Each estimate as it is made, as server-sent events; after Last-Event-ID first the missed ones that are stored
#[utoipa::path(get, path = "/estimates/stream",
    params(("Last-Event-ID" = Option<i64>, Header, description = "The last step that was received.")),
    responses(
        (status = 200, content_type = "text/event-stream", body = String,
            description = "Events `estimate` with the step as their id and an Estimate as their data."),
        BadRequest, Unavailable, TooManyRequests,
))]
async fn get_stream(
    State(app): State<App>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
    _: Query<NoParameters>,
) -> Result<Response, ApiError> {
    let (receiver, latest) = app.feed.subscribe();
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<i64>().ok());
    // If the records have restarted, stored steps after it are of the time before.
    let last = last.filter(|&last| latest.as_ref().is_none_or(|latest| latest.step >= Step(last)));
    let mut missed = match last {
        Some(last) if app.history.is_some() => app.missed_events(last).await?,
        _ => Vec::new(),
    };
    let last = missed.last().map(|event| event.step).or(last.map(Step));
    missed.extend(latest.filter(|latest| last.is_none_or(|last| latest.step > last)));
    connection.set_streaming();
    let content_type = HeaderValue::from_static("text/event-stream");
    Ok(([(CONTENT_TYPE, content_type)], event_body(missed, receiver)).into_response())
}

/// Each estimate as it is made, in few bytes, as server-sent events: the latest one whole, then changes
#[utoipa::path(get, path = "/estimates/changes", responses(
    (status = 200, content_type = "text/event-stream", body = String,
        description = "Events `estimate` with the step as their id and a PackedEstimate as their data. A reader whose numbers are not those of `base` connects again."),
    BadRequest, Unavailable, TooManyRequests,
))]
async fn get_changes(
    State(app): State<App>,
    Extension(connection): Extension<Connection>,
    _: Query<NoParameters>,
) -> Response {
    let (receiver, latest) = app.feed.subscribe_packed();
    connection.set_streaming();
    let content_type = HeaderValue::from_static("text/event-stream");
    ([(CONTENT_TYPE, content_type)], event_body(latest.into_iter().collect(), receiver))
        .into_response()
}

/// Missed events, then each as it comes, until the reader is too far behind. Not `axum::response::Sse`, which copies
/// each event for each reader.
fn event_body(missed: Vec<Event>, receiver: broadcast::Receiver<Event>) -> Body {
    // They were read from the history after the subscription: the feed may have them too.
    let replayed = missed.first().zip(missed.last()).map(|(first, last)| first.step..=last.step);
    let state = (VecDeque::from(missed), receiver, replayed);
    Body::from_stream(stream::unfold(state, async |(mut missed, mut receiver, mut replayed)| {
        let bytes = loop {
            if let Some(event) = missed.pop_front() {
                break event.bytes;
            }
            match tokio::time::timeout(KEEP_ALIVE, receiver.recv()).await {
                Err(_) => break Bytes::from_static(b":\n\n"),
                Ok(Ok(event)) if replayed.as_ref().is_some_and(|r| r.contains(&event.step)) => {}
                Ok(Ok(event)) => {
                    // A later one of the same step is another: the records have begun anew.
                    replayed = None;
                    break event.bytes;
                }
                // Too far behind, or the host has ended.
                Ok(Err(_)) => return None,
            }
        };
        Some((Ok::<_, Infallible>(bytes), (missed, receiver, replayed)))
    }))
}

/// The latest estimate as GeoJSON, for maps that poll
#[utoipa::path(get, path = "/feeds/estimates.geojson", responses(
    (status = 200, description = "A feature of each link.", content_type = "application/geo+json", body = GeoJsonDocument),
    BadRequest, NoOrigin, Unavailable, TooManyRequests,
))]
async fn get_geojson_feed(
    State(app): State<App>,
    headers: HeaderMap,
    _: Query<NoParameters>,
) -> Result<Response, ApiError> {
    let make = |info: &SeriesInfo, estimate: &Estimate| {
        to_json(&GeoJsonDocument::new(info, estimate.clone()).ok_or(ApiError::NoOrigin)?)
    };
    app.feed_response(Feed::GeoJson, &headers, make).await
}

/// The latest estimate as DATEX II version 3, ElaboratedDataPublication
#[utoipa::path(get, path = "/feeds/datex2.xml", responses(
    (status = 200, description = "Speed, flow and density of each link.", content_type = "application/xml", body = String),
    BadRequest, NoOrigin, Unavailable, TooManyRequests,
))]
async fn get_datex_feed(
    State(app): State<App>,
    headers: HeaderMap,
    _: Query<NoParameters>,
) -> Result<Response, ApiError> {
    let make = |info: &SeriesInfo, estimate: &Estimate| {
        datex::publication(info, estimate).map(String::into_bytes).ok_or(ApiError::NoOrigin)
    };
    app.feed_response(Feed::Datex, &headers, make).await
}

/// Which steps are stored
#[utoipa::path(get, path = "/history", responses(
    (status = 200, description = "The stored steps.", body = HistoryDocument),
    BadRequest, NotFound, Unavailable, TooManyRequests,
))]
async fn get_history(State(app): State<App>, _: Query<NoParameters>) -> Result<Response, ApiError> {
    app.read(JSON, |app, history| {
        let stretches = app.ranges(history)?;
        let steps = stretches.iter().map(|range| range.count(range.first, range.last)).sum();
        let (step_s, keep_s) = (app.info.step_s, app.keep_s);
        Ok(HistoryDocument { step_s, keep_s, steps, stretches })
    })
    .await
}

/// Delete old estimates
#[utoipa::path(delete, path = "/history", params(DeleteQuery), security(("token" = [])), responses(
    (status = 200, description = "How many steps were deleted.", body = DeletedDocument),
    BadRequest, WrongToken, NoToken, NotFound, Unavailable, TooManyRequests,
))]
async fn delete_history(
    State(app): State<App>,
    _: Authorized,
    Query(DeleteQuery { before_s }): Query<DeleteQuery>,
) -> Result<Response, ApiError> {
    let before_s = before_s
        .ok_or_else(|| ApiError::BadRequest("before_s: not found, expected a time".into()))?;
    app.read(JSON, move |app, history| {
        let step = Step((before_s / app.info.step_s).floor() as i64);
        let forgotten_steps = history.delete_before(step)?;
        *app.ranges.lock().unwrap_or_else(PoisonError::into_inner) = None;
        info!(before = step.0, deleted = forgotten_steps, "estimates deleted on request");
        Ok(DeletedDocument { forgotten_steps })
    })
    .await
}

/// The estimate of a step
#[utoipa::path(get, path = "/history/{step}", params(("step" = i64, Path)), responses(
    (status = 200, description = "The estimate.", body = EstimateDocument),
    BadRequest, NotFound, Unavailable, TooManyRequests,
))]
async fn get_step(
    State(app): State<App>,
    Path(step): Path<i64>,
    _: Query<NoParameters>,
) -> Result<Response, ApiError> {
    app.read_bytes(JSON, move |app, history| {
        let estimate = history.get(Step(step))?.ok_or_else(|| not_stored(step))?;
        to_json(&EstimateDocument::new(&app.info, &estimate, true))
    })
    .await
}

/// The estimate of a step in few bytes
#[utoipa::path(get, path = "/history/{step}/packed", params(("step" = i64, Path)), responses(
    (status = 200, description = "The estimate, whole.", body = PackedDocument),
    BadRequest, NotFound, Unavailable, TooManyRequests,
))]
async fn get_packed(
    State(app): State<App>,
    Path(step): Path<i64>,
    _: Query<NoParameters>,
) -> Result<Response, ApiError> {
    app.read_bytes(JSON, move |app, history| {
        let estimate = history.get(Step(step))?.ok_or_else(|| not_stored(step))?;
        let numbers = RoundedStates::of(&estimate).pack(None);
        to_json(&PackedDocument::new(&app.info, &estimate, true, None, numbers))
    })
    .await
}

/// A link's last hour, or another span of time
#[utoipa::path(get, path = "/links/{link}", params(("link" = String, Path), SpanQuery), responses(
    (status = 200, description = "The link's stored steps.", body = LinkSeriesDocument),
    BadRequest, NotFound, Unavailable, TooManyRequests,
))]
async fn get_link(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(query): Query<SpanQuery>,
) -> Result<Response, ApiError> {
    app.read(JSON, move |app, history| {
        let link = link_named(app, &name)?;
        let (from, to) = app.span(history, &query, HOUR_S)?;
        if to.0.saturating_sub(from.0) >= MAX_LINK_STEPS {
            let text = format!("found more than {MAX_LINK_STEPS} steps, expected fewer");
            return Err(ApiError::BadRequest(text));
        }
        let steps = history.link_series(link.index(), from, to)?;
        Ok(LinkSeriesDocument::new(&app.info, name, steps))
    })
    .await
}

/// Speeds along a route, link by link, over its last hour or another span of time
#[utoipa::path(get, path = "/route",
    params(("link" = Vec<String>, Query, description = "A link of the route, in driving order: 1 to 200 of them."), SpanQuery),
    responses(
        (status = 200, description = "Of each link its stored steps.", body = RouteDocument),
        BadRequest, NotFound, Unavailable, TooManyRequests,
))]
async fn get_route(
    State(app): State<App>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let query = RouteQuery::new(pairs)?;
    app.read(JSON, move |app, history| {
        let named = query.links.iter().map(|name| link_named(app, name));
        let links = named.collect::<Result<Vec<_>, _>>()?;
        let (from, to) = app.span(history, &query.span, HOUR_S)?;
        let steps = to.0.saturating_sub(from.0).saturating_add(1);
        let max = MAX_ROUTE_NUMBERS / links.len() as i64;
        if steps > max {
            let text =
                format!("found {steps} steps of {} links, expected at most {max}", links.len());
            return Err(ApiError::BadRequest(text));
        }
        let numbers: Vec<usize> = links.iter().map(|link| link.index()).collect();
        let series = history.route_series(&numbers, from, to)?;
        Ok(RouteDocument::new(&app.info, &links, &series))
    })
    .await
}

/// Links beyond a threshold, and silent guests
#[utoipa::path(get, path = "/alarms", responses(
    (status = 200, description = "How things stand.", body = AlarmsDocument),
    BadRequest, TooManyRequests,
))]
async fn get_alarms(State(app): State<App>, _: Query<NoParameters>) -> Response {
    Json(app.feed.alarms().document(&app.info)).into_response()
}

/// Alarms as they are raised and cleared, as server-sent events
#[utoipa::path(get, path = "/alarms/stream", responses(
    (status = 200, content_type = "text/event-stream", body = String,
        description = "Events `alarm`: `step`, `end_s`, the alarms `raised` and `cleared` (200 of each at most) with `raised_count` and `cleared_count`, and the guests that are `silent` or `back` since."),
    BadRequest, TooManyRequests,
))]
async fn get_alarm_stream(
    State(app): State<App>,
    Extension(connection): Extension<Connection>,
    _: Query<NoParameters>,
) -> Response {
    let receiver = app.feed.alarms().subscribe();
    connection.set_streaming();
    let content_type = HeaderValue::from_static("text/event-stream");
    ([(CONTENT_TYPE, content_type)], event_body(Vec::new(), receiver)).into_response()
}

/// A span of time as CSV; default: the last day
#[utoipa::path(get, path = "/exports/estimates.csv", params(SpanQuery), responses(
    (status = 200, description = "A table.", content_type = "text/csv", body = String),
    BadRequest, NotFound, TooManyRows, Unavailable, TooManyRequests,
))]
async fn get_csv(
    State(app): State<App>,
    Query(query): Query<SpanQuery>,
) -> Result<Response, ApiError> {
    app.export(Format::Csv, query).await
}

/// A span of time as Parquet; default: the last day
#[utoipa::path(get, path = "/exports/estimates.parquet", params(SpanQuery), responses(
    (status = 200, description = "A table.", content_type = "application/vnd.apache.parquet", body = inline(BinaryFile)),
    BadRequest, NotFound, TooManyRows, Unavailable, TooManyRequests,
))]
async fn get_parquet(
    State(app): State<App>,
    Query(query): Query<SpanQuery>,
) -> Result<Response, ApiError> {
    app.export(Format::Parquet, query).await
}

/// One step as GeoJSON; default: the newest
#[utoipa::path(get, path = "/exports/estimates.geojson", params(StepQuery), responses(
    (status = 200, description = "A feature of each link.", content_type = "application/geo+json", body = GeoJsonDocument),
    BadRequest, NotFound, NoOrigin, Unavailable, TooManyRequests,
))]
async fn get_geojson(
    State(app): State<App>,
    Query(StepQuery { step }): Query<StepQuery>,
) -> Result<Response, ApiError> {
    let content_type = HeaderValue::from_static("application/geo+json");
    let mut response = app
        .read(content_type, move |app, history| {
            let step = match step {
                Some(step) => Step(step),
                None => app.newest(history)?,
            };
            let estimate = history.get(step)?.ok_or_else(|| not_stored(step.0))?;
            GeoJsonDocument::new(&app.info, estimate).ok_or(ApiError::NoOrigin)
        })
        .await?;
    let disposition = HeaderValue::from_static("attachment; filename=\"estimates.geojson\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    Ok(response)
}

fn link_named(app: &AppState, name: &str) -> Result<LinkId, ApiError> {
    let unknown = || ApiError::NotFound(format!("link {name:?}: not found"));
    app.info.network.link_named(name).ok_or_else(unknown)
}

fn not_stored(step: i64) -> ApiError {
    ApiError::NotFound(format!("step {step} is not stored"))
}

fn to_json(document: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(document).map_err(|error| ApiError::Internal(error.to_string()))
}

/// A form of the latest estimate for readers that poll.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feed {
    GeoJson,
    Datex,
}

impl Feed {
    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Feed::GeoJson => "application/geo+json",
            Feed::Datex => "application/xml",
        })
    }
}

/// A text that was made of an estimate: the same for all who ask for it.
struct FeedText {
    feed: Feed,
    estimate: Arc<Estimate>,
    text: Arc<FixedText>,
}

impl AppState {
    /// The latest estimate in another form. It is made once, by whoever asks first.
    async fn feed_response(
        self: &Arc<Self>,
        feed: Feed,
        headers: &HeaderMap,
        make: impl FnOnce(&SeriesInfo, &Estimate) -> Result<Vec<u8>, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let estimate = self.feed.estimate().ok_or(ApiError::NoEstimate)?;
        let permit = acquire(&self.feed_texts).await?;
        let (app, asked) = (Arc::clone(self), headers.clone());
        let made = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut kept = app.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let same =
                |text: &&FeedText| text.feed == feed && Arc::ptr_eq(&text.estimate, &estimate);
            let text = match kept.iter().find(same) {
                Some(kept) => Arc::clone(&kept.text),
                None => {
                    let text = Arc::new(FixedText::new(make(&app.info, &estimate)?));
                    kept.retain(|kept| kept.feed != feed);
                    kept.push(FeedText { feed, estimate, text: Arc::clone(&text) });
                    text
                }
            };
            drop(kept);
            Ok::<_, ApiError>(text.body(&asked))
        });
        let (coding, text) =
            made.await.map_err(|error| ApiError::Internal(error.to_string()))??;
        Ok(([(CONTENT_TYPE, feed.content_type())], coding, text).into_response())
    }

    /// A document from the history.
    async fn read<T: Serialize>(
        self: &Arc<Self>,
        content_type: HeaderValue,
        act: impl FnOnce(&AppState, &dyn History) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        self.read_bytes(content_type, |app, history| to_json(&act(app, history)?)).await
    }

    /// A response from the history. A large one holds its permit until it is sent.
    async fn read_bytes(
        self: &Arc<Self>,
        content_type: HeaderValue,
        act: impl FnOnce(&AppState, &dyn History) -> Result<Vec<u8>, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let bytes = self.blocking(act).await?;
        if bytes.len() <= LARGE_BYTES {
            return Ok(([(CONTENT_TYPE, content_type)], bytes).into_response());
        }
        let permit = acquire(&self.large).await?;
        let length = HeaderValue::from(bytes.len());
        // Pieces are copies, so that the whole is freed with its permit.
        let state = (bytes, 0, permit);
        let body = Body::from_stream(stream::unfold(state, async |(bytes, sent, permit)| {
            let end = bytes.len().min(sent + PIECE_BYTES);
            let piece = bytes.get(sent..end).filter(|piece| !piece.is_empty())?;
            let piece = Bytes::copy_from_slice(piece);
            Some((Ok::<_, Infallible>(piece), (bytes, end, permit)))
        }));
        Ok(([(CONTENT_TYPE, content_type), (CONTENT_LENGTH, length)], body).into_response())
    }

    /// Reads the history on a thread that may wait for the disk, with a permit.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&AppState, &dyn History) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let history = self.history()?;
        let permit = acquire(&self.reads).await?;
        let app = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            // Held until the work is done, even if the client has gone.
            let _permit = permit;
            act(&app, &*history)
        });
        done.await.map_err(|error| ApiError::Internal(error.to_string()))?
    }

    fn history(&self) -> Result<Arc<dyn History>, ApiError> {
        let missing = || ApiError::NotFound("this host stores no history".into());
        self.history.clone().ok_or_else(missing)
    }

    /// Streams a table, on a thread that is as fast as the client reads.
    async fn export(
        self: &Arc<Self>,
        format: Format,
        query: SpanQuery,
    ) -> Result<Response, ApiError> {
        let history = self.history()?;
        let permits = (acquire(&self.large).await?, acquire(&self.reads).await?);
        let (writer, reader) = exports::chunks();
        let app = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || {
            let _permits = permits;
            let span = app.table_span(&*history, &query)?;
            format.write(&app.info, &*history, span, writer)
        });
        let Some(body) = reader.begin().await else {
            let failed = written.await.map_err(|error| ApiError::Internal(error.to_string()))?;
            let nothing = || ApiError::Internal("export: found no data".into());
            return Err(failed.err().unwrap_or_else(nothing));
        };
        tokio::spawn(async move {
            match written.await {
                Ok(Err(ApiError::History(cause))) => warn!("export: {cause}"),
                Ok(Err(ApiError::Internal(cause))) => debug!("export: {cause}"),
                _ => {}
            }
        });
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(format.content_type())),
            (CONTENT_DISPOSITION, HeaderValue::from_static(format.disposition())),
        ];
        Ok((headers, body).into_response())
    }

    /// The steps of a table, if they are not too many.
    fn table_span(
        &self,
        history: &dyn History,
        query: &SpanQuery,
    ) -> Result<(Step, Step), ApiError> {
        let (from, to) = self.span(history, query, DAY_S)?;
        let inside = |range: &StepRange| range.count(from, to);
        let steps = self.ranges(history)?.iter().map(inside).sum::<i64>();
        let links = self.info.network.links().len().max(1);
        if steps > (MAX_ROWS / links).max(1) as i64 {
            return Err(ApiError::TooManyRows { max: MAX_ROWS });
        }
        Ok((from, to))
    }

    /// Which steps are stored, at most a second ago.
    fn ranges(&self, history: &dyn History) -> Result<Vec<StepRange>, HistoryError> {
        let mut held = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = held.as_ref().filter(|(at, _)| at.elapsed() < RANGES_MAX_AGE) {
            return Ok(found.clone());
        }
        let found = history.ranges()?;
        *held = Some((Instant::now(), found.clone()));
        Ok(found)
    }

    fn newest(&self, history: &dyn History) -> Result<Step, ApiError> {
        let newest = self.ranges(history)?.last().map(|range| range.last);
        newest.ok_or_else(|| ApiError::NotFound("nothing is stored yet".into()))
    }

    /// The steps that end after `from_s` and begin before `to_s`. By default the last so many seconds that are stored.
    fn span(
        &self,
        history: &dyn History,
        &SpanQuery { from_s, to_s }: &SpanQuery,
        default_s: f64,
    ) -> Result<(Step, Step), ApiError> {
        let step_s = self.info.step_s;
        if from_s.zip(to_s).is_some_and(|(from_s, to_s)| from_s > to_s) {
            let text = "from_s: found a time after to_s, expected one before";
            return Err(ApiError::BadRequest(text.into()));
        }
        let to = match to_s {
            Some(to_s) => (to_s / step_s).ceil() as i64 - 1,
            None => self.newest(history)?.0,
        };
        let from = match from_s {
            Some(from_s) => (from_s / step_s).floor() as i64,
            None => to.saturating_sub((default_s / step_s) as i64 - 1),
        };
        Ok((Step(from), Step(to.max(from))))
    }

    /// Stored events after a step.
    async fn missed_events(self: &Arc<Self>, last: i64) -> Result<Vec<Event>, ApiError> {
        self.blocking(move |app, history| {
            let (mut missed, mut bytes) = (Vec::new(), 0);
            let until = Step(last.saturating_add(MAX_MISSED));
            history.for_each(Step(last.saturating_add(1)), until, &mut |estimate| {
                let event = Event::stored(&app.info, &estimate);
                bytes += event.bytes.len();
                missed.push(event);
                bytes < MAX_MISSED_BYTES
            })?;
            Ok(missed)
        })
        .await
    }
}

/// Waits for a permit, but not for long.
async fn acquire(permits: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    match tokio::time::timeout(PERMIT_TIMEOUT, Arc::clone(permits).acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(ApiError::Busy),
    }
}
