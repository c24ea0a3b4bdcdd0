//! The gRPC service `fedtse.v1.Federation` with its one call, `TakePart`: a stream of messages each way.
//!
//! The codec writes the bytes that the sender's ledger has hashed, so nothing is encoded a second time. What
//! arrives is decoded by [`protocol::wire`].

use std::future::{Ready, ready};
use std::marker::PhantomData;

use hyper::http::uri::PathAndQuery;
use prost::bytes::{Buf, BufMut, Bytes};
use protocol::message::{ToGuest, ToHost};
use protocol::wire::{WireError, decode_to_guest, decode_to_host};
use tokio_stream::Stream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::StreamingService;
use tonic::{Request, Response, Status, Streaming};

const TAKE_PART: &str = "/fedtse.v1.Federation/TakePart";

/// A message as it arrives: of our definition, or not.
pub(super) type Received<M> = Result<M, WireError>;

/// Decodes the messages of one direction.
pub(super) trait Decode: Sized + Send + Sync + 'static {
    fn decode(bytes: &[u8]) -> Received<Self>;
}

impl Decode for ToHost {
    fn decode(bytes: &[u8]) -> Received<Self> {
        decode_to_host(bytes)
    }
}

impl Decode for ToGuest {
    fn decode(bytes: &[u8]) -> Received<Self> {
        decode_to_guest(bytes)
    }
}

/// Sends bytes that are ready, and reads messages `M`.
pub(super) struct ReadyBytes<M>(PhantomData<fn() -> M>);

impl<M> Default for ReadyBytes<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<M: Decode> Codec for ReadyBytes<M> {
    type Encode = Bytes;
    type Decode = Received<M>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<M> Encoder for ReadyBytes<M> {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl<M: Decode> Decoder for ReadyBytes<M> {
    type Item = Received<M>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Received<M>>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        Ok(Some(M::decode(&bytes)))
    }
}

/// Calls `TakePart` on a connection; messages are at most `limit` bytes.
pub(super) async fn take_part<T>(
    connection: T,
    origin: hyper::Uri,
    limit: usize,
    outgoing: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<Streaming<Received<ToGuest>>, Status>
where
    T: tower_service::Service<
            hyper::Request<tonic::body::Body>,
            Response = hyper::Response<hyper::body::Incoming>,
        >,
    T::Error: std::error::Error + Send + Sync + 'static,
{
    let client = tonic::client::Grpc::with_origin(connection, origin);
    let mut client = client.max_decoding_message_size(limit);
    let not_ready = |error| Status::unknown(format!("the connection is not ready: {error}"));
    client.ready().await.map_err(not_ready)?;
    let path = PathAndQuery::from_static(TAKE_PART);
    let codec = ReadyBytes::<ToGuest>::default();
    Ok(client.streaming(Request::new(outgoing), path, codec).await?.into_inner())
}

/// Answers an HTTP request: `answer` takes the guest's messages and returns those to it.
pub(super) async fn respond<S>(
    request: hyper::Request<hyper::body::Incoming>,
    limit: usize,
    answer: impl FnMut(Streaming<Received<ToHost>>) -> Result<S, Status> + Send,
) -> hyper::Response<tonic::body::Body>
where
    S: Stream<Item = Result<Bytes, Status>> + Send + 'static,
{
    if request.uri().path() != TAKE_PART {
        return Status::unimplemented("no such call").into_http();
    }
    let server = tonic::server::Grpc::new(ReadyBytes::<ToHost>::default());
    server.max_decoding_message_size(limit).streaming(Answer(answer), request).await
}

/// A function as tonic's service of two streams.
struct Answer<A>(A);

impl<A, S> StreamingService<Received<ToHost>> for Answer<A>
where
    A: FnMut(Streaming<Received<ToHost>>) -> Result<S, Status>,
    S: Stream<Item = Result<Bytes, Status>>,
{
    type Response = Bytes;
    type ResponseStream = S;
    type Future = Ready<Result<Response<S>, Status>>;

    fn call(&mut self, request: Request<Streaming<Received<ToHost>>>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(Response::new))
    }
}
