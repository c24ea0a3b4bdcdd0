//! XML files of SUMO, one tag at a time, borrowed from the read buffer.
//!
//! Written for the plain XML that SUMO writes, of which there can be gigabytes: no namespaces, no
//! document types with content, and no `>` inside attribute values (SUMO escapes it).

use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::path::Path;

use super::number::{parse_magnitude, parse_number};
use super::source::Source;
use super::{Fault, SumoFileError, quoted};

/// An XML file read from top to bottom.
///
/// The root element must have the name expected, every tag must be closed, and the file must not
/// end before the root does.
pub struct XmlFile {
    source: Source,
    root: &'static str,
    /// Names of the open elements, each after a `<`.
    open: Vec<u8>,
    finished: bool,
}

/// A start tag with its attributes.
#[derive(Clone, Copy)]
pub struct Element<'a> {
    /// The tag without its brackets: the name, then the attributes.
    body: &'a [u8],
    source: &'a Source,
}

/// What comes next in a file.
pub(super) enum Tag<'a> {
    /// `<name …>`
    Start(Element<'a>),
    /// `<name …/>`
    Empty(Element<'a>),
    /// `</name>`
    End(&'a [u8]),
}

impl XmlFile {
    /// Opens a file, plain or gzipped, whose root element has the name given.
    pub fn open(path: &Path, root: &'static str) -> Result<Self, SumoFileError> {
        Self::new(Source::open(path)?, root)
    }

    /// Reads from anything; the name is for messages.
    pub fn from_reader(
        name: &Path,
        bytes: Box<dyn Read + Send>,
        root: &'static str,
    ) -> Result<Self, SumoFileError> {
        Self::new(Source::new(name, bytes)?, root)
    }

    pub(super) fn new(mut source: Source, root: &'static str) -> Result<Self, SumoFileError> {
        if source.peek_content()?.is_none() {
            return Err(SumoFileError::Empty { file: source.file().into(), expected: root });
        }
        Ok(Self { source, root, open: Vec::new(), finished: false })
    }

    /// The next start tag below the root; `None` at the end.
    pub fn next_element(&mut self) -> Result<Option<Element<'_>>, SumoFileError> {
        loop {
            match self.advance()? {
                None => return Ok(None),
                Some(Span { kind: Kind::End, .. }) => {}
                Some(Span { from, to, .. }) => {
                    let body = self.source.slice(from, to);
                    return Ok(Some(Element { body, source: &self.source }));
                }
            }
        }
    }

    /// The next tag below the root; `None` at the end.
    #[inline]
    pub(super) fn next_tag(&mut self) -> Result<Option<Tag<'_>>, SumoFileError> {
        let Some(Span { kind, from, to }) = self.advance()? else { return Ok(None) };
        let body = self.source.slice(from, to);
        let element = Element { body, source: &self.source };
        Ok(Some(match kind {
            Kind::Start => Tag::Start(element),
            Kind::Empty => Tag::Empty(element),
            Kind::End => Tag::End(body),
        }))
    }

    /// The place that was read last, for a fault found there.
    pub(super) fn locate(&self, fault: Fault) -> SumoFileError {
        fault.at(self.source.file(), self.source.line())
    }

    fn advance(&mut self) -> Result<Option<Span>, SumoFileError> {
        while !self.finished {
            let Some(span) = self.next_span()? else { return Err(self.cut_off()) };
            let at_root = self.open.is_empty();
            if at_root {
                let name = name_of(self.source.slice(span.from, span.to));
                if span.kind == Kind::End || name != self.root.as_bytes() {
                    let found = quoted(name);
                    let problem = format!("found element {found}, expected <{}>", self.root);
                    return Err(self.syntax(problem));
                }
            }
            match span.kind {
                Kind::Start => {
                    let name = name_of(self.source.slice(span.from, span.to));
                    self.open.push(b'<');
                    self.open.extend_from_slice(name);
                }
                Kind::Empty => self.finished = at_root,
                Kind::End => {
                    let name = self.source.slice(span.from, span.to).trim_ascii_end();
                    let opened = self.open.iter().rposition(|&byte| byte == b'<').unwrap_or(0);
                    if &self.open[opened + 1..] != name {
                        let problem = format!(
                            "found the end of {}, expected that of {}",
                            quoted(name),
                            quoted(&self.open[opened + 1..])
                        );
                        return Err(self.syntax(problem));
                    }
                    self.open.truncate(opened);
                    self.finished = self.open.is_empty();
                }
            }
            if !(at_root || self.finished) {
                return Ok(Some(span));
            }
        }
        Ok(None)
    }

    /// Consumes the next tag; its bytes stay in the buffer until the next call.
    #[inline]
    fn next_span(&mut self) -> Result<Option<Span>, SumoFileError> {
        loop {
            let Some(open) = self.source.find(b"<", 0)? else { return Ok(None) };
            self.source.consume(open + 1);
            match self.source.peek_byte()? {
                Some(b'!') => {
                    let end: &[u8] = if self.source.starts_with(b"!--")? {
                        b"-->"
                    } else if self.source.starts_with(b"![CDATA[")? {
                        b"]]>"
                    } else {
                        b">"
                    };
                    self.skip_past(end)?;
                    continue;
                }
                Some(b'?') => {
                    self.skip_past(b"?>")?;
                    continue;
                }
                None => return Ok(None),
                Some(_) => {}
            }
            let Some(close) = self.source.find(b">", 0)? else { return Ok(None) };
            let start = self.source.position();
            let mut span = Span { kind: Kind::Start, from: start, to: start + close };
            let body = self.source.slice(span.from, span.to);
            if body.first() == Some(&b'/') {
                span = Span { kind: Kind::End, from: span.from + 1, ..span };
            } else if body.last() == Some(&b'/') {
                span = Span { kind: Kind::Empty, to: span.to - 1, ..span };
            }
            self.source.consume(close + 1);
            return Ok(Some(span));
        }
    }

    fn skip_past(&mut self, end: &[u8]) -> Result<(), SumoFileError> {
        match self.source.find(end, 0)? {
            Some(at) => self.source.consume(at + end.len()),
            None => return Err(self.cut_off()),
        }
        Ok(())
    }

    fn cut_off(&self) -> SumoFileError {
        self.syntax(format!("the file ends too early, expected </{}>", self.root))
    }

    fn syntax(&self, problem: String) -> SumoFileError {
        SumoFileError::Syntax { file: self.source.file().into(), line: self.source.line(), problem }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Start,
    Empty,
    End,
}

/// A tag's place in the buffer, without its brackets.
#[derive(Clone, Copy)]
struct Span {
    kind: Kind,
    from: usize,
    to: usize,
}

fn name_of(body: &[u8]) -> &[u8] {
    let end = body.iter().position(u8::is_ascii_whitespace).unwrap_or(body.len());
    &body[..end]
}

impl<'a> Element<'a> {
    /// Its name.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        name_of(self.body)
    }

    /// An attribute's text, if it is there.
    pub fn find(&self, name: &str) -> Result<Option<Cow<'a, str>>, SumoFileError> {
        for attribute in self.attributes() {
            let (key, value) = attribute.map_err(|fault| self.locate(fault.into()))?;
            if key == name.as_bytes() {
                return match unescaped(value) {
                    Some(text) => Ok(Some(text)),
                    None => Err(self.wrong(name, &quoted(value), "text")),
                };
            }
        }
        Ok(None)
    }

    /// An attribute's text.
    pub fn text(&self, name: &str) -> Result<Cow<'a, str>, SumoFileError> {
        self.find(name)?.ok_or_else(|| self.wrong(name, "nothing", "this attribute"))
    }

    /// An attribute that is a number of 0 or more.
    pub fn number(&self, name: &str) -> Result<f64, SumoFileError> {
        let text = self.text(name)?;
        parse_magnitude(text.as_bytes())
            .ok_or_else(|| self.wrong(name, &quoted(text.as_bytes()), "a number of 0 or more"))
    }

    /// An attribute that is a number of any sign.
    pub fn signed(&self, name: &str) -> Result<f64, SumoFileError> {
        let text = self.text(name)?;
        parse_number(text.as_bytes())
            .filter(|number| number.is_finite())
            .ok_or_else(|| self.wrong(name, &quoted(text.as_bytes()), "a number"))
    }

    /// The error that an attribute has the wrong value.
    pub fn wrong(&self, name: &str, found: &str, expected: &str) -> SumoFileError {
        let field = format!("{} {name}", String::from_utf8_lossy(self.name()));
        self.locate(Fault::new(&field, found, expected))
    }

    /// All attributes as written: names and values, still escaped.
    #[inline]
    pub(super) fn attributes(&self) -> Attributes<'a> {
        Attributes { rest: &self.body[self.name().len()..] }
    }

    fn locate(&self, fault: Fault) -> SumoFileError {
        fault.at(self.source.file(), self.source.line())
    }
}

/// The attributes of a tag, one by one.
pub(super) struct Attributes<'a> {
    rest: &'a [u8],
}

/// What was found where an attribute should be.
pub(super) struct Malformed<'a>(&'a [u8]);

impl From<Malformed<'_>> for Fault {
    #[cold]
    fn from(found: Malformed<'_>) -> Self {
        Fault::new("attributes", quoted(found.0), "name=\"value\"")
    }
}

impl<'a> Iterator for Attributes<'a> {
    // The error is small, for the sake of the millions that are none.
    type Item = Result<(&'a [u8], &'a [u8]), Malformed<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let text = match self.rest {
            [b' ', rest @ ..] if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) => {
                rest
            }
            rest => rest.trim_ascii_start(),
        };
        if text.is_empty() {
            return None;
        }
        self.rest = &[];
        let malformed = Some(Err(Malformed(text)));
        let Some(equals) = text.iter().position(|&byte| byte == b'=') else { return malformed };
        let Some(&quote) = text.get(equals + 1).filter(|byte| matches!(byte, b'"' | b'\'')) else {
            return malformed;
        };
        let value = &text[equals + 2..];
        let Some(end) = value.iter().position(|&byte| byte == quote) else { return malformed };
        self.rest = &value[end + 1..];
        Some(Ok((&text[..equals], &value[..end])))
    }
}

/// An attribute's value without XML's escapes; `None` if it is no text.
pub(super) fn unescaped(value: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(value).ok()?;
    if text.contains('&') { quick_xml::escape::unescape(text).ok() } else { Some(text.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, SumoFileError> {
        let bytes = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut file = XmlFile::from_reader(Path::new("a.xml"), bytes, "net")?;
        let mut names = Vec::new();
        while let Some(element) = file.next_element()? {
            names.push(String::from_utf8(element.name().to_vec()).unwrap());
        }
        Ok(names)
    }

    #[test]
    fn elements_come_in_order_and_comments_do_not() {
        let text = "<?xml version=\"1.0\"?>\n<!-- <a/> > -->\n<net x='1'>\n <b q=\"2\"><c/></b>\n\
                    <![CDATA[<d/>]]><e></e >\n</net>\n";
        assert_eq!(names(text).unwrap(), ["b", "c", "e"]);
        assert_eq!(names("<net/>").unwrap(), [""; 0]);
    }

    #[test]
    fn attributes_are_unescaped_and_checked() {
        let text = "<net>\n<a id=\"x&amp;y\" n = \"1\"/>\n<a n=\"-1\" s='2.5'/></net>";
        let bytes = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut file = XmlFile::from_reader(Path::new("a.xml"), bytes, "net").unwrap();
        let element = file.next_element().unwrap().unwrap();
        assert_eq!(element.text("id").unwrap(), "x&y");
        let error = element.text("n").unwrap_err().to_string();
        assert!(error.starts_with("a.xml: line 2: attributes: found `n = "), "{error}");
        let element = file.next_element().unwrap().unwrap();
        assert_eq!(element.number("s").unwrap(), 2.5);
        assert_eq!(element.signed("n").unwrap(), -1.0);
        let error = element.number("n").unwrap_err().to_string();
        assert_eq!(error, "a.xml: line 3: a n: found `-1`, expected a number of 0 or more");
        let error = element.number("m").unwrap_err().to_string();
        assert_eq!(error, "a.xml: line 3: a m: found nothing, expected this attribute");
    }

    #[test]
    fn broken_files_are_refused_with_their_line() {
        for (text, expected) in [
            ("", "a.xml: the file is empty, expected net"),
            (" \n ", "a.xml: the file is empty, expected net"),
            ("<net>\n<a/>", "line 2: the file ends too early, expected </net>"),
            ("<net>\n<a b=\"", "line 2: the file ends too early"),
            ("<net>\n<!-- ", "line 2: the file ends too early"),
            ("<net>\n</nut>", "line 2: found the end of `nut`, expected that of `net`"),
            ("<fcd/>", "line 1: found element `fcd`, expected <net>"),
            ("plain text", "line 1: the file ends too early"),
        ] {
            let error = names(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
