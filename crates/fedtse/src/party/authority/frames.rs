//! Questions to a key authority and its replies, as bytes: a length, a kind, what is said.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const REQUEST: u8 = 1;
const ANSWER: u8 = 3;
const REFUSAL: u8 = 4;
/// The longest reply: keys of as many rows as an agreement may have, with some room.
const LONGEST_REPLY: usize = (64 << 20) + 1024;

/// The next request; none where the other side has hung up.
pub(super) async fn read_request(
    from: &mut (impl AsyncRead + Unpin),
    longest: usize,
) -> io::Result<Option<Vec<u8>>> {
    match read(from, longest).await? {
        Some((REQUEST, bytes)) => Ok(Some(bytes)),
        Some((kind, _)) => Err(bad(format!("found a message of kind {kind}, expected a request"))),
        None => Ok(None),
    }
}

pub(super) async fn write_request(
    to: &mut (impl AsyncWrite + Unpin),
    request: &[u8],
) -> io::Result<()> {
    write(to, REQUEST, request).await
}

pub(super) async fn write_reply(
    to: &mut (impl AsyncWrite + Unpin),
    reply: &Result<Vec<u8>, String>,
) -> io::Result<()> {
    match reply {
        Ok(bytes) => write(to, ANSWER, bytes).await,
        Err(problem) => write(to, REFUSAL, problem.as_bytes()).await,
    }
}

/// What the authority says, or why it says nothing.
pub(super) async fn read_reply(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<Result<Vec<u8>, String>> {
    match read(from, LONGEST_REPLY).await? {
        Some((ANSWER, bytes)) => Ok(Ok(bytes)),
        Some((REFUSAL, bytes)) => Ok(Err(String::from_utf8_lossy(&bytes).into_owned())),
        Some((kind, _)) => Err(bad(format!("found a message of kind {kind}, expected a reply"))),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), kind: u8, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| bad("too long".to_owned()))?;
    to.write_all(&length.to_le_bytes()).await?;
    to.write_all(&[kind]).await?;
    to.write_all(bytes).await?;
    to.flush().await
}

async fn read(
    from: &mut (impl AsyncRead + Unpin),
    longest: usize,
) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 5];
    // Hanging up between messages is no error.
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if length > longest {
        return Err(bad(format!("found a message of {length} bytes, expected at most {longest}")));
    }
    // Grows as bytes come: a length alone takes no memory.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((head[4], bytes)))
}

fn bad(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_through_and_others_are_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut bytes = Vec::new();
            write_request(&mut bytes, &[7; 9]).await.unwrap();
            write_request(&mut bytes, &[]).await.unwrap();
            let mut from = &bytes[..];
            assert_eq!(read_request(&mut from, 9).await.unwrap(), Some(vec![7; 9]));
            assert_eq!(read_request(&mut from, 9).await.unwrap(), Some(Vec::new()));
            assert!(read_request(&mut from, 9).await.unwrap().is_none());
            // Longer than allowed, cut off, of no kind.
            assert!(read_request(&mut &bytes[..], 8).await.is_err());
            assert!(read_request(&mut &bytes[..13], 9).await.is_err());
            assert!(read_request(&mut &[0, 0, 0, 0, 9][..], 9).await.is_err());
            let mut bytes = Vec::new();
            write_reply(&mut bytes, &Err("no".to_owned())).await.unwrap();
            assert_eq!(read_reply(&mut &bytes[..]).await.unwrap(), Err("no".to_owned()));
        });
    }
}
