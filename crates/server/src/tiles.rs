//! A basemap under the links: tiles of another server, or a PMTiles file of this one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde::Serialize;
use utoipa::ToSchema;

use crate::settings::{SettingsError, is_host};

/// Where a PMTiles file of this server is.
pub(crate) const ARCHIVE_PATH: &str = "/basemap.pmtiles";
/// Length of the header of a PMTiles file, and how it begins: name and version.
const HEADER_BYTES: usize = 127;
const MAGIC: &[u8] = b"PMTiles\x03";
/// Longest range of bytes that is served at once; directories and tiles are shorter.
const MAX_RANGE_BYTES: u64 = 4 << 20;

/// How a basemap is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TileKind {
    /// Pictures, one for each tile.
    Raster,
    /// Mapbox Vector Tiles, one for each tile.
    Vector,
    /// An archive of either, read by ranges of bytes.
    Pmtiles,
}

/// A basemap.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Tiles {
    kind: TileKind,
    /// With `{z}`, `{x}` and `{y}`; of an archive its own place.
    url: String,
    attribution: String,
    /// Scheme and host of another server: the only one that the page may ask. Empty for a file.
    #[serde(skip)]
    pub(crate) origin: String,
    #[serde(skip)]
    pub(crate) archive: Option<Archive>,
}

impl Tiles {
    /// A URL of tiles or of an archive, or an archive's file; relative paths start at the folder.
    pub(crate) fn new(
        source: &str,
        folder: &Path,
        attribution: &str,
    ) -> Result<Self, SettingsError> {
        let attribution = attribution.to_owned();
        let Some((scheme, rest)) = source.split_once("://") else {
            let archive = Some(Archive::open(&folder.join(source))?);
            let url = ARCHIVE_PATH.trim_start_matches('/').to_owned();
            return Ok(Tiles {
                kind: TileKind::Pmtiles,
                url,
                attribution,
                origin: String::new(),
                archive,
            });
        };
        let wrong = || SettingsError::Tiles(source.to_owned());
        let host = rest.split('/').next().unwrap_or_default();
        let path = source.split('?').next().unwrap_or_default();
        let kind = match path.rsplit_once('.') {
            Some((_, "pmtiles")) => TileKind::Pmtiles,
            Some((_, "mvt" | "pbf")) => TileKind::Vector,
            _ => TileKind::Raster,
        };
        let template = ["{z}", "{x}", "{y}"].iter().all(|part| source.contains(part));
        if !["http", "https"].contains(&scheme)
            || !is_host(host)
            || template != (kind != TileKind::Pmtiles)
        {
            return Err(wrong());
        }
        let origin = format!("{scheme}://{host}");
        Ok(Tiles { kind, url: source.into(), attribution, origin, archive: None })
    }
}

/// A PMTiles file.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    file: Arc<File>,
    bytes: u64,
    /// Changes with the file.
    pub(crate) etag: String,
}

impl Archive {
    fn open(path: &Path) -> Result<Self, SettingsError> {
        let failed = |error| SettingsError::TilesFile { path: path.display().to_string(), error };
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let mut header = [0; HEADER_BYTES];
        let whole = about.is_file() && about.len() >= HEADER_BYTES as u64;
        if whole {
            file.read_exact_at(&mut header, 0).map_err(failed)?;
        }
        if !header.starts_with(MAGIC) {
            return Err(SettingsError::NoPmtiles { path: path.display().to_string() });
        }
        let modified = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.unwrap_or_default().as_nanos();
        let bytes = about.len();
        Ok(Archive { file: Arc::new(file), bytes, etag: format!("\"{bytes:x}-{modified:x}\"") })
    }

    /// Bytes of a range; waits for the disk.
    pub(crate) fn read(&self, range: ByteRange) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.last - range.first + 1) as usize];
        self.file.read_exact_at(&mut bytes, range.first)?;
        Ok(bytes)
    }

    /// The range that a header `Range` asks for.
    pub(crate) fn range(&self, header: Option<&str>) -> Result<ByteRange, String> {
        let total = self.bytes;
        let wrong = || {
            let found = header.unwrap_or_default().chars().take(60).collect::<String>();
            format!("Range: found {found:?}, expected bytes=FIRST-LAST within {total} bytes")
        };
        let range = header.and_then(|text| text.strip_prefix("bytes=")).ok_or_else(wrong)?;
        let (first, last) = range.split_once('-').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let (first, last) = match (first, last) {
            ("", suffix) => (total.saturating_sub(number(suffix)?), total - 1),
            (first, "") => (number(first)?, total - 1),
            (first, last) => (number(first)?, number(last)?.min(total - 1)),
        };
        if first > last {
            return Err(wrong());
        }
        if last - first >= MAX_RANGE_BYTES {
            return Err(format!(
                "Range: found {} bytes, expected at most {MAX_RANGE_BYTES}",
                last - first + 1
            ));
        }
        Ok(ByteRange { first, last, total })
    }

    /// As in the header `Content-Range` of a range that cannot be served.
    pub(crate) fn unsatisfied(&self) -> String {
        format!("bytes */{}", self.bytes)
    }
}

/// Bytes of a file, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    first: u64,
    last: u64,
    total: u64,
}

impl ByteRange {
    /// As in the header `Content-Range`.
    pub(crate) fn header(self) -> String {
        format!("bytes {}-{}/{}", self.first, self.last, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiles(source: &str) -> Result<Tiles, String> {
        Tiles::new(source, Path::new("/nowhere"), "").map_err(|error| error.to_string())
    }

    #[test]
    fn a_url_says_what_kind_of_tiles_it_has() {
        for (url, kind, origin) in [
            ("https://a.example/{z}/{x}/{y}.png", TileKind::Raster, "https://a.example"),
            ("http://a.example:81/{z}/{x}/{y}.mvt?key=k", TileKind::Vector, "http://a.example:81"),
            ("https://a.example/{z}/{x}/{y}.pbf", TileKind::Vector, "https://a.example"),
            ("https://a.example/town.pmtiles", TileKind::Pmtiles, "https://a.example"),
        ] {
            let found = tiles(url).unwrap();
            assert_eq!((found.kind, found.origin.as_str()), (kind, origin), "{url}");
            assert!(found.archive.is_none());
        }
        for url in [
            "https://a.example/{z}/{x}.png",
            "ftp://a.example/{z}/{x}/{y}.png",
            "https://a b/{z}/{x}/{y}.png",
            "https:///{z}/{x}/{y}.png",
            "https://a.example/{z}/{x}/{y}.pmtiles",
        ] {
            assert!(tiles(url).unwrap_err().starts_with("readers.tiles: found"), "{url}");
        }
    }

    #[test]
    fn only_a_pmtiles_file_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let open = |bytes: &[u8]| {
            std::fs::write(folder.path().join("t.pmtiles"), bytes).unwrap();
            Tiles::new("t.pmtiles", folder.path(), "").map_err(|error| error.to_string())
        };
        let mut whole = MAGIC.to_vec();
        whole.resize(200, 7);
        let archive = open(&whole).unwrap().archive.unwrap();
        assert_eq!(archive.bytes, 200);
        let mut old = whole.clone();
        old[7] = 2;
        for bytes in [&old[..], &whole[..126], b"", b"{}"] {
            let error = open(bytes).unwrap_err();
            assert!(error.contains("expected a PMTiles file of version 3"), "{error}");
        }
        assert!(tiles("missing.pmtiles").unwrap_err().contains("/nowhere/missing.pmtiles"));
    }

    #[test]
    fn ranges_are_within_the_file_and_not_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = MAGIC.to_vec();
        bytes.extend((0..=255).collect::<Vec<u8>>());
        std::fs::write(folder.path().join("t"), &bytes).unwrap();
        let archive = Tiles::new("t", folder.path(), "").unwrap().archive.unwrap();
        let total = bytes.len() as u64;
        for (header, first, last) in [
            ("bytes=0-6", 0, 6),
            ("bytes=8-", 8, total - 1),
            ("bytes=-4", total - 4, total - 1),
            ("bytes=-9999", 0, total - 1),
            ("bytes=260-9999", 260, total - 1),
        ] {
            let range = archive.range(Some(header)).unwrap();
            assert_eq!(range, ByteRange { first, last, total }, "{header}");
            assert_eq!(archive.read(range).unwrap(), bytes[first as usize..=last as usize]);
        }
        for header in [
            "",
            "bytes=",
            "bytes=5",
            "bytes=6-5",
            "bytes=264-",
            "bytes=0-1,3-4",
            "bytes=-0",
            "items=0-1",
            "bytes=a-b",
        ] {
            assert!(
                archive.range(Some(header)).unwrap_err().starts_with("Range: found"),
                "{header}"
            );
        }
        assert!(archive.range(None).is_err());
        let long = Archive { bytes: 1 << 40, ..archive };
        assert!(long.range(Some("bytes=0-4194303")).is_ok());
        let error = long.range(Some("bytes=0-4194304")).unwrap_err();
        assert_eq!(error, "Range: found 4194305 bytes, expected at most 4194304");
    }
}
