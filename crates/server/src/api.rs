//! What is answered: the page, and the API under `/v1` (`openapi.json` describes it).
//!
//! Reading is for everyone; whatever changes something needs the token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH,
    REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;
use traffic::Step;

use super::body::{Answer, Events};
use super::exports::{self, Format};
use super::feed::{Event, Feed, past_event};
use super::history::History;
use super::map::{MapDocument, Tiles};
use super::pages::Pages;
use super::past::Past;
use super::query::{Asked, Query};
use super::record::About;
use super::token::Token;

/// Answers that read the past at a time, and of them the large ones.
const MOST_READS: usize = 4;
const MOST_LARGE: usize = 2;
/// How long a request waits for its turn to read the past.
const TURN: Duration = Duration::from_secs(5);
/// Missed estimates that a reader of the stream is told when it comes back, and their bytes: a slow one holds them all.
const MOST_MISSED: i64 = 360;
const MOST_MISSED_BYTES: usize = 1 << 20;
/// An answer from the past of more bytes takes a place among the large ones until it is sent.
const LARGE_BYTES: usize = 256 << 10;

/// All that is answered from.
pub struct Site {
    about: Arc<About>,
    feed: Arc<Feed>,
    past: Option<Past>,
    token: Option<Token>,
    pages: Pages,
    map: String,
    policy: HeaderValue,
    reads: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// What a site is made of.
pub struct Parts {
    pub about: Arc<About>,
    pub feed: Arc<Feed>,
    pub history: Option<Arc<dyn History>>,
    pub keep_s: Option<f64>,
    /// Whether new estimates come.
    pub live: bool,
    pub token: Option<Token>,
    pub tiles: Option<Tiles>,
}

/// What goes wrong, as it is told.
pub struct Problem {
    status: StatusCode,
    text: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Problem { status, text: text.into(), headers: Vec::new() }
    }

    fn with(mut self, name: HeaderName, value: impl TryInto<HeaderValue>) -> Self {
        self.headers.extend(value.try_into().ok().map(|value| (name, value)));
        self
    }
}

type Answered = Result<Response<Answer>, Problem>;

impl Site {
    pub fn new(parts: Parts) -> Self {
        let Parts { about, feed, history, keep_s, live, token, tiles } = parts;
        let tiles_from = tiles.as_ref().map(|tiles| tiles.origin.as_str()).unwrap_or_default();
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self' data: {tiles_from}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        let map = MapDocument::of(&about, live, history.is_some(), tiles).text();
        let past = history.map(|history| Past::new(history, Arc::clone(&about), keep_s));
        Site {
            about,
            feed,
            past,
            token,
            pages: Pages::new(),
            map,
            policy: HeaderValue::try_from(policy)
                .unwrap_or(HeaderValue::from_static("default-src 'none'")),
            reads: Arc::new(Semaphore::new(MOST_READS)),
            large: Arc::new(Semaphore::new(MOST_LARGE)),
        }
    }

    /// Answers a request, unless its address has asked too often. `streams` is set for a stream of events.
    pub async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        allowed: Result<(), f64>,
        streams: &AtomicBool,
    ) -> Response<Answer> {
        let answered = match allowed {
            Ok(()) => self.clone().route(&request, streams).await,
            Err(wait_s) => {
                let text = format!("too many requests; wait {wait_s:.1} s");
                let wait = format!("{:.0}", wait_s.ceil().max(1.0));
                Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, text).with(RETRY_AFTER, wait))
            }
        };
        let mut response = answered.unwrap_or_else(told);
        let fixed = |name: HeaderName, value: &'static str| (name, HeaderValue::from_static(value));
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.extend([
            fixed(X_CONTENT_TYPE_OPTIONS, "nosniff"),
            fixed(X_FRAME_OPTIONS, "DENY"),
            fixed(REFERRER_POLICY, "no-referrer"),
            fixed(HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            fixed(
                HeaderName::from_static("permissions-policy"),
                "geolocation=(), camera=(), microphone=()",
            ),
        ]);
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }

    async fn route(self: Arc<Self>, request: &Request<Incoming>, streams: &AtomicBool) -> Answered {
        let path = request.uri().path();
        let asked = Asked::of(path).ok_or_else(|| {
            Problem::new(StatusCode::NOT_FOUND, format!("{path}: not found; see /v1/openapi.json"))
        })?;
        let query = Query::parse(request.uri().query().unwrap_or_default())
            .and_then(|query| query.only(asked.fields()).map(|()| query))
            .map_err(|text| Problem::new(StatusCode::BAD_REQUEST, text))?;
        match (request.method(), asked) {
            (&Method::GET, Asked::Page(name)) => self.page(name, request.headers()),
            (&Method::GET, Asked::Description) => Ok(json(Answer::whole(super::OPENAPI))),
            (&Method::GET, Asked::Map) => Ok(json(Answer::whole(self.map.clone()))),
            (&Method::GET, Asked::Latest) => match self.feed.latest() {
                Some(text) => Ok(json(Answer::whole(text))),
                None => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no estimate yet")
                    .with(RETRY_AFTER, "5")),
            },
            (&Method::GET, Asked::Stream) => self.stream(request.headers(), streams).await,
            (&Method::GET, Asked::History) => self.read(|past| Ok(past.overview()?)).await,
            (&Method::GET, Asked::Step(step)) => {
                self.read(move |past| {
                    let record = past.at(Step(step))?;
                    let missing = || missing(format!("step {step} is not stored"));
                    record.map(|record| past.document(&record)).ok_or_else(missing)
                })
                .await
            }
            (&Method::GET, Asked::Link(name)) => {
                self.read(move |past| past.link(&name, &query)).await
            }
            (&Method::GET, Asked::Export(format)) => self.export(format, query).await,
            (&Method::DELETE, Asked::History) => {
                self.authorise(request.headers())?;
                self.read(move |past| past.forget(&query)).await
            }
            (_, Asked::History) => Err(not_allowed("GET, DELETE")),
            _ => Err(not_allowed("GET")),
        }
    }

    fn page(&self, name: &str, headers: &HeaderMap) -> Answered {
        let page = self.pages.get(name).ok_or_else(|| missing(format!("/{name}: not found")))?;
        let same = headers.get(IF_NONE_MATCH).is_some_and(|tag| *tag == page.tag);
        let bytes: &'static str = if same { "" } else { page.text };
        let mut response = Response::new(Answer::whole(bytes));
        if same {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.kind));
        headers.insert(ETAG, page.tag.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }

    /// The latest estimate, and then each as it is made; for one who comes back with `Last-Event-ID`, first those after
    /// it that are stored.
    async fn stream(self: &Arc<Self>, headers: &HeaderMap, streams: &AtomicBool) -> Answered {
        let (receiver, latest) = self.feed.subscribe();
        let last =
            headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<i64>().ok());
        // Where the records have begun anew, what is stored after it is of the time before.
        let last =
            last.filter(|&last| latest.as_ref().is_none_or(|latest| latest.step >= Step(last)));
        let mut missed = match (last, &self.past) {
            (Some(last), Some(_)) => {
                self.blocking(move |site, past| {
                    let (mut missed, mut bytes) = (Vec::new(), 0);
                    let until = Step(last.saturating_add(MOST_MISSED));
                    past.each(Step(last.saturating_add(1)), until, &mut |record| {
                        let event = past_event(&site.about, &record);
                        bytes += event.bytes.len();
                        missed.push(event);
                        bytes < MOST_MISSED_BYTES
                    })?;
                    Ok(missed)
                })
                .await?
            }
            _ => Vec::new(),
        };
        let last = missed.last().map(|event: &Event| event.step).or(last.map(Step));
        missed.extend(latest.filter(|latest| last.is_none_or(|last| latest.step > last)));
        streams.store(true, Ordering::Relaxed);
        let mut response = Response::new(Answer::Events(Events::new(missed, receiver)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        Ok(response)
    }

    async fn export(self: &Arc<Self>, format: Format, query: Query) -> Answered {
        let place = turn(&self.large).await?;
        // The place goes along: a reader that is gone does not stop what it has begun.
        let (bytes, place) = self
            .blocking(move |site, past| {
                exports::make(format, &site.about, past, &query).map(|bytes| (bytes, place))
            })
            .await?;
        let mut response = Response::new(Answer::large(bytes, place));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
        headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(format.disposition()));
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        Ok(response)
    }

    async fn read(
        self: &Arc<Self>,
        act: impl FnOnce(&Past) -> Result<String, Problem> + Send + 'static,
    ) -> Answered {
        let text = self.blocking(move |_, past| act(past)).await?;
        if text.len() > LARGE_BYTES {
            return Ok(json(Answer::large(text, turn(&self.large).await?)));
        }
        Ok(json(Answer::whole(text)))
    }

    /// Reads the past on a thread that may wait for the disk, when it is its turn.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&Site, &Past) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        if self.past.is_none() {
            return Err(missing("this host stores no past"));
        }
        let turn = turn(&self.reads).await?;
        let site = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            // Held until the work is done, whether or not anyone still waits for it.
            let _turn = turn;
            match &site.past {
                Some(past) => act(&site, past),
                None => Err(missing("this host stores no past")),
            }
        });
        done.await.map_err(|_| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the past could not be read")
        })?
    }

    fn authorise(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(token) = &self.token else {
            let text = "read-only: this host has no token";
            return Err(Problem::new(StatusCode::FORBIDDEN, text));
        };
        if token.is_in(headers) {
            return Ok(());
        }
        let text = "expected `Authorization: Bearer TOKEN` with this host's token";
        Err(Problem::new(StatusCode::UNAUTHORIZED, text).with(WWW_AUTHENTICATE, "Bearer"))
    }
}

impl From<anyhow::Error> for Problem {
    /// What the store says goes to the log: a reader has no use for it, and it may name machines.
    fn from(error: anyhow::Error) -> Self {
        warn!("reading the past: {error:#}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the past cannot be read just now")
    }
}

pub fn missing(text: impl Into<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, text)
}

/// Waits for a place, but not for long.
async fn turn(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    match tokio::time::timeout(TURN, Arc::clone(places).acquire_owned()).await {
        Ok(Ok(place)) => Ok(place),
        _ => Err(busy()),
    }
}

fn busy() -> Problem {
    let text = "too many readers of the past; try again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, text).with(RETRY_AFTER, "5")
}

fn not_allowed(allowed: &'static str) -> Problem {
    let text = format!("expected {allowed}");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, text).with(ALLOW, allowed)
}

fn json(answer: Answer) -> Response<Answer> {
    let mut response = Response::new(answer);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Published is for everyone, pages of others included.
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

fn told(problem: Problem) -> Response<Answer> {
    let text = serde_json::json!({"error": problem.text}).to_string();
    let mut response = json(Answer::whole(text));
    *response.status_mut() = problem.status;
    response.headers_mut().extend(problem.headers);
    response
}
