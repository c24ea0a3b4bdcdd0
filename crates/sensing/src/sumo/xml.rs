//! XML files of SUMO, one tag at a time, read by quick-xml.
//!
//! quick-xml finds the markup, pairs start tags with end tags, splits attributes and resolves
//! references. It leaves some rules of [XML 1.0](https://www.w3.org/TR/xml/) to its caller. This
//! module checks them, for all markup, whether or not a reader asks for it:
//!
//! - one root element, of the expected name; only comments, processing instructions and white space
//!   around it; nothing missing at the end of the file;
//! - names made of name characters; attributes separated by white space, each at most once, without
//!   `<` in their values;
//! - only characters that XML allows, only references that are known;
//! - an XML declaration only at the very start, version 1.x, in an encoding that we read.
//!
//! Duplicates of attributes are looked for here, not by quick-xml, which would allocate for each tag.
//! Tags as SUMO writes them by the million take a short cut, [`Document::plain_tag`].
//!
//! Values are normalised as XML asks: references are resolved, line breaks and tabs become spaces.
//!
//! Not read: encodings other than UTF-8 (ISO-8859-1 and its kin as long as the file keeps to ASCII),
//! and document types with declarations of their own. Both are refused. Namespaces are not resolved:
//! SUMO's own elements have none, and a name with a prefix is another name.

use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use quick_xml::XmlVersion;
use quick_xml::errors::{IllFormedError, SyntaxError};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::attributes::{AttrError, Attribute};
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};
use quick_xml::name::QName;
use quick_xml::reader::Reader;

use super::number::{parse_magnitude, parse_number};
use super::source::{Source, breaks};
use super::{Fault, SumoFileError, quoted};

/// Elements within elements; SUMO nests about five deep.
const MAX_DEPTH: usize = 100;
/// Bytes of a name. The names of all open elements are held.
const MAX_NAME: usize = 1000;
/// Attributes of an element.
const MAX_ATTRIBUTES: usize = 1000;

/// An XML file read from top to bottom.
///
/// The root element must have the name expected. What is not well-formed is refused.
pub struct XmlFile {
    reader: Reader<Source>,
    /// The markup read last, brackets included; behind it, values that differ from how they are
    /// written.
    buffer: Vec<u8>,
    /// The length of the markup alone.
    markup: usize,
    document: Document,
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

    /// Opens a file whose root element may have any name, as SUMO accepts for additional files; the
    /// name given is the usual one, for messages.
    pub(super) fn open_any(path: &Path, root: &'static str) -> Result<Self, SumoFileError> {
        let mut file = Self::open(path, root)?;
        file.document.any_root = true;
        Ok(file)
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
        let mut reader = Reader::from_reader(source);
        let config = reader.config_mut();
        config.check_comments = true;
        // Nobody reads text: white space between tags need not become an event.
        config.trim_text_start = true;
        let document = Document {
            root,
            any_root: false,
            part: Part::Prolog,
            depth: 0,
            has_type: false,
            ascii_only: false,
            after_text: false,
            name: 0,
            attributes: Vec::new(),
            plain: true,
        };
        Ok(Self { reader, buffer: Vec::new(), markup: 0, document })
    }

    /// The next start tag below the root; `None` at the end.
    pub fn next_element(&mut self) -> Result<Option<Element<'_>>, SumoFileError> {
        loop {
            match self.advance()? {
                None => return Ok(None),
                Some(TagKind::End) => {}
                Some(TagKind::Start | TagKind::Empty) => return Ok(Some(Element { file: self })),
            }
        }
    }

    /// The next tag below the root; `None` at the end.
    #[inline]
    pub(super) fn next_tag(&mut self) -> Result<Option<Tag<'_>>, SumoFileError> {
        let Some(kind) = self.advance()? else { return Ok(None) };
        Ok(Some(match kind {
            TagKind::Start => Tag::Start(Element { file: self }),
            TagKind::Empty => Tag::Empty(Element { file: self }),
            // `</name>`, maybe with white space behind the name.
            TagKind::End => Tag::End(self.buffer[2..self.markup - 1].trim_ascii_end()),
        }))
    }

    /// The place that was read last, for a fault found there.
    pub(super) fn locate(&self, fault: Fault) -> SumoFileError {
        fault.at(self.reader.get_ref().file(), self.line())
    }

    #[inline]
    fn advance(&mut self) -> Result<Option<TagKind>, SumoFileError> {
        self.read_tag().map_err(|problem| self.refuse(problem))
    }

    fn read_tag(&mut self) -> Result<Option<TagKind>, Problem> {
        let Self { reader, buffer, markup, document } = self;
        loop {
            buffer.clear();
            // So that an error before the next markup is located here.
            *markup = 0;
            reader.get_mut().begin_markup();
            if document.depth > 0 && !document.after_text {
                // Between two tags quick-xml lets its caller read from the source.
                let mut stream = reader.stream();
                let available = stream.fill_buf().map_err(quick_xml::Error::from)?;
                if let Some(tag) = document.plain_tag(available) {
                    let length = tag.end;
                    buffer.extend_from_slice(&available[tag]);
                    *markup = buffer.len();
                    stream.consume(length);
                    return Ok(Some(TagKind::Empty));
                }
            }
            document.after_text = false;
            let kind = match reader.read_event_into(buffer)? {
                Event::Start(tag) => {
                    document.tag(&tag)?;
                    TagKind::Start
                }
                Event::Empty(tag) => {
                    document.tag(&tag)?;
                    TagKind::Empty
                }
                Event::End(_) => TagKind::End,
                Event::Text(text) => {
                    document.after_text = true;
                    document.text(&text)?;
                    continue;
                }
                Event::CData(text) => {
                    document.inside("a CDATA section")?;
                    document.characters(&text)?;
                    continue;
                }
                Event::GeneralRef(reference) => {
                    document.reference(&reference)?;
                    continue;
                }
                Event::Comment(text) => {
                    document.characters(&text)?;
                    continue;
                }
                Event::PI(instruction) => {
                    document.instruction(instruction.target(), &instruction)?;
                    continue;
                }
                Event::Decl(declaration) => {
                    // `<?` and `?>` are not part of the event.
                    let at_start = reader.buffer_position() == declaration.len() as u64 + 4;
                    document.declaration(&declaration, at_start)?;
                    continue;
                }
                Event::DocType(text) => {
                    document.document_type(&text)?;
                    continue;
                }
                Event::Eof => {
                    document.end_of_file()?;
                    return Ok(None);
                }
            };
            *markup = buffer.len();
            if kind != TagKind::End && !document.plain {
                document.normalise(buffer)?;
            }
            if document.count(kind)? {
                return Ok(Some(kind));
            }
        }
    }

    /// The line on which the markup read last begins.
    fn line(&self) -> u64 {
        self.reader.get_ref().line().saturating_sub(breaks(&self.buffer[..self.markup]))
    }

    #[cold]
    fn refuse(&mut self, problem: Problem) -> SumoFileError {
        // Markup that was not finished or not accepted is in the buffer, too.
        if self.markup == 0 {
            self.markup = self.buffer.len();
        }
        let line = self.line();
        let source = self.reader.get_mut();
        let root = self.document.root;
        let problem = match problem {
            Problem::Read(error) => {
                let error = Arc::try_unwrap(error)
                    .unwrap_or_else(|error| io::Error::new(error.kind(), error.to_string()));
                return SumoFileError::Read { file: source.file().into(), line, error };
            }
            Problem::CutOff => format!("the file ends too early, expected </{root}>"),
            Problem::Unclosed(expected) => {
                if source.fill_buf().is_ok_and(<[u8]>::is_empty) {
                    format!("the file ends too early, expected `{expected}`")
                } else {
                    format!("found {}, expected `{expected}`", quoted(&self.buffer))
                }
            }
            Problem::Attributes(error) => {
                let at = match error {
                    AttrError::ExpectedEq(at)
                    | AttrError::ExpectedValue(at)
                    | AttrError::UnquotedValue(at)
                    | AttrError::ExpectedQuote(at, _)
                    | AttrError::Duplicated(at, _) => at,
                };
                // Up to there everything was in order: show it from the name of the attribute on.
                let tag = self.buffer.get(1..).unwrap_or_default();
                let tag = tag.strip_suffix(b">").unwrap_or(tag);
                let tag = tag.strip_suffix(b"/").unwrap_or(tag);
                let before = &tag[..at.min(tag.len())];
                let from = before.trim_ascii_end().iter().rposition(u8::is_ascii_whitespace);
                let found = quoted(&tag[from.map_or(0, |space| space + 1)..]);
                format!("attributes: found {found}, expected name=\"value\"")
            }
            Problem::Found(problem) => problem,
        };
        SumoFileError::Syntax { file: source.file().into(), line, problem }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TagKind {
    Start,
    Empty,
    End,
}

/// What is wrong, before it is known on which line.
enum Problem {
    Read(Arc<io::Error>),
    /// The file ends within the root element.
    CutOff,
    /// Markup without its end.
    Unclosed(&'static str),
    Attributes(AttrError),
    /// What was found and what was expected.
    Found(String),
}

impl From<quick_xml::Error> for Problem {
    #[cold]
    fn from(error: quick_xml::Error) -> Self {
        use quick_xml::Error;
        match error {
            Error::Io(error) => Self::Read(error),
            Error::Syntax(error) => match error {
                SyntaxError::UnclosedPI | SyntaxError::UnclosedXmlDecl => Self::Unclosed("?>"),
                SyntaxError::UnclosedComment => Self::Unclosed("<!-- … -->"),
                SyntaxError::UnclosedDoctype => Self::Unclosed("<!DOCTYPE … >"),
                SyntaxError::UnclosedCData => Self::Unclosed("<![CDATA[ … ]]>"),
                SyntaxError::UnclosedTag => Self::Unclosed(">"),
                SyntaxError::UnclosedSingleQuotedAttributeValue => Self::Unclosed("'"),
                SyntaxError::UnclosedDoubleQuotedAttributeValue => Self::Unclosed("\""),
                SyntaxError::InvalidBangMarkup => Self::Unclosed("<!--, <![CDATA[ or <!DOCTYPE"),
            },
            Error::IllFormed(error) => Self::Found(match error {
                IllFormedError::MismatchedEndTag { expected, found } => format!(
                    "found the end of {}, expected that of {}",
                    quoted(found.as_bytes()),
                    quoted(expected.as_bytes())
                ),
                IllFormedError::UnmatchedEndTag(found) => {
                    format!("found the end of {}, expected no end here", quoted(found.as_bytes()))
                }
                IllFormedError::DoubleHyphenInComment => {
                    "found `--` within a comment, expected `-->` at its end".into()
                }
                IllFormedError::UnclosedReference => {
                    "found `&` without `;`, expected `&amp;`".into()
                }
                other => format!("{other}, expected well-formed XML"),
            }),
            Error::InvalidAttr(error) => Self::Attributes(error),
            Error::Encoding(_) => {
                Self::Found("found bytes that are not UTF-8, expected text in UTF-8".into())
            }
            other => Self::Found(format!(
                "found a value that is not well-formed ({other}), expected text"
            )),
        }
    }
}

fn found(found: impl std::fmt::Display, expected: impl std::fmt::Display) -> Problem {
    Problem::Found(format!("found {found}, expected {expected}"))
}

/// The part of a document that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Prolog,
    Root,
    Epilog,
}

/// The rules that quick-xml leaves to its caller, and the tag read last.
struct Document {
    root: &'static str,
    /// Whether the root element may have another name.
    any_root: bool,
    part: Part,
    depth: usize,
    /// Whether a document type was given.
    has_type: bool,
    /// Whether only ASCII may follow, as another encoding than UTF-8 was declared.
    ascii_only: bool,
    /// Whether quick-xml is at the end of a text, and knows already what comes next.
    after_text: bool,
    /// The length of the tag's name.
    name: usize,
    attributes: Vec<AttributeSpan>,
    /// Whether the tag's values read as they are written.
    plain: bool,
}

/// Where in the buffer an attribute lies.
struct AttributeSpan {
    name: Range<u32>,
    value: Range<u32>,
}

impl Document {
    /// A short cut for what nearly all of a large file is: `<name key="value" …/>`, all of it in the
    /// buffer, with single spaces, double quotes and values that read as they are written.
    ///
    /// Returns where in the text the tag is, white space before it left out. `None` if the text is
    /// anything else, right or wrong: that is for quick-xml, whose reading of these tags is the
    /// same. An element without content leaves its state as it is. Without the short cut, reading
    /// FCD takes 1.8 times as long.
    #[inline]
    fn plain_tag(&mut self, text: &[u8]) -> Option<Range<usize>> {
        let begin = text.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))?;
        let tag = text[begin..].strip_prefix(b"<")?;
        self.name = name_length(tag);
        if self.name == 0 || self.name > MAX_NAME {
            return None;
        }
        self.attributes.clear();
        self.plain = true;
        let mut at = self.name;
        let mut seen = 0;
        loop {
            let rest = match &tag[at..] {
                [b' ', rest @ ..] => rest,
                [b'/', b'>', ..] => return Some(begin..begin + at + 3),
                _ => return None,
            };
            let length = name_length(rest);
            let (name, rest) = rest.split_at(length);
            let value = rest.strip_prefix(b"=\"")?;
            let value = &value[..value.iter().position(|&byte| !is(byte, IN_PLAIN_VALUE))?];
            // The same name twice is an error, the same bit is not: the other way tells them apart.
            let bit = bit_of(name);
            if length == 0 || length > MAX_NAME || seen & bit != 0 {
                return None;
            }
            seen |= bit;
            // The bracket and the space before the name, the equals sign and the quote behind it.
            let from = (at + 2) as u32;
            let to = from + length as u32;
            let value = to + 2..to + 2 + value.len() as u32;
            at = value.end as usize;
            if tag.get(at - 1) != Some(&b'"') {
                return None;
            }
            self.attributes.push(AttributeSpan { name: from..to, value });
        }
    }

    /// A start tag: its name, its attributes and their characters.
    #[inline]
    fn tag(&mut self, tag: &BytesStart<'_>) -> Result<(), Problem> {
        let name = tag.name().into_inner();
        check_name(name)?;
        if self.depth == 0 {
            self.check_root(name)?;
        }
        self.name = name.len();
        self.split(tag)?;
        let rest = tag.attributes_raw().as_bytes();
        // Without a way out of the loop it is compiled to vector instructions. As signed numbers,
        // bytes outside ASCII are below all others, too.
        let odd = |byte: u8| (byte.cast_signed() < 0x20) | (byte == b'<') | (byte == b'&');
        self.plain = !rest.iter().fold(false, |any, &byte| any | odd(byte));
        Ok(())
    }

    /// Finds the attributes, and checks all but their values.
    #[inline]
    fn split(&mut self, tag: &BytesStart<'_>) -> Result<(), Problem> {
        let content: &str = tag;
        self.attributes.clear();
        // The buffer holds `<` before the content.
        let place = |part: &str| {
            let from = (part.as_ptr() as usize - content.as_ptr() as usize) as u32 + 1;
            from..from + part.len() as u32
        };
        // Its own check of duplicates allocates, once a tag: ours is below.
        let mut attributes = tag.attributes();
        attributes.with_checks(false);
        // Only names that share a bit are compared.
        let mut seen = 0_u64;
        let mut end = 0;
        for attribute in attributes {
            let attribute = attribute.map_err(Problem::Attributes)?;
            let name = attribute.key.into_inner();
            check_name(name)?;
            let span = AttributeSpan { name: place(name), value: place(&attribute.value) };
            // The quote of the last value is at `end`.
            if span.name.start == end + 1 {
                return Err(found(quoted(name.as_bytes()), "white space before an attribute"));
            }
            end = span.value.end;
            let bit = bit_of(name.as_bytes());
            if seen & bit != 0 {
                self.check_unique(content, name)?;
            }
            seen |= bit;
            self.attributes.push(span);
        }
        Ok(())
    }

    #[cold]
    fn check_unique(&self, content: &str, name: &str) -> Result<(), Problem> {
        // Beyond 64 attributes all of them come by here.
        if self.attributes.len() >= MAX_ATTRIBUTES {
            return Err(found(
                "an element of more attributes",
                format!("at most {MAX_ATTRIBUTES}"),
            ));
        }
        let known = |span: &AttributeSpan| {
            &content[span.name.start as usize - 1..span.name.end as usize - 1] == name
        };
        if self.attributes.iter().any(known) {
            return Err(found(format!("attribute {} twice", quoted(name.as_bytes())), "it once"));
        }
        Ok(())
    }

    /// Checks values that do not read as they are written, and puts what they read as behind the
    /// tag.
    #[cold]
    fn normalise(&mut self, buffer: &mut Vec<u8>) -> Result<(), Problem> {
        let text = std::str::from_utf8(buffer).map_err(quick_xml::Error::from)?;
        self.characters(text)?;
        let mut normalised = String::new();
        for span in &mut self.attributes {
            let written = &text[span.value.start as usize..span.value.end as usize];
            if written.contains('<') {
                return Err(found(format!("`<` in {}", quoted(written.as_bytes())), "`&lt;`"));
            }
            let attribute = Attribute { key: QName(""), value: written.into() };
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|_| found(quoted(written.as_bytes()), "known references like `&amp;`"))?;
            if value != written {
                check_characters(&value)?;
                let from = (buffer.len() + normalised.len()) as u32;
                span.value = from..from + value.len() as u32;
                normalised.push_str(&value);
            }
        }
        buffer.extend_from_slice(normalised.as_bytes());
        Ok(())
    }

    /// Keeps count of open elements; whether the tag is below the root.
    #[inline]
    fn count(&mut self, kind: TagKind) -> Result<bool, Problem> {
        let at_root = self.depth == 0;
        match kind {
            TagKind::Start if self.depth == MAX_DEPTH => {
                return Err(found("elements nested deeper", format!("at most {MAX_DEPTH}")));
            }
            TagKind::Start => self.depth += 1,
            // quick-xml has found the start tag to it.
            TagKind::End => self.depth -= 1,
            TagKind::Empty => {}
        }
        if self.depth == 0 {
            self.part = Part::Epilog;
        }
        Ok(!at_root && self.depth > 0)
    }

    #[cold]
    fn check_root(&mut self, name: &str) -> Result<(), Problem> {
        let element = format!("element {}", quoted(name.as_bytes()));
        if self.part == Part::Epilog {
            return Err(found(element, format!("the end of the file after </{}>", self.root)));
        }
        if name != self.root && !self.any_root {
            return Err(found(element, format!("<{}>", self.root)));
        }
        self.part = Part::Root;
        Ok(())
    }

    fn text(&self, text: &str) -> Result<(), Problem> {
        if text.is_empty() {
            return Ok(());
        }
        self.inside(&format!("text {}", quoted(text.as_bytes())))?;
        if text.contains("]]>") {
            return Err(found("`]]>` in text", "`]]&gt;`"));
        }
        self.characters(text)
    }

    fn reference(&self, reference: &BytesRef<'_>) -> Result<(), Problem> {
        self.inside("a reference")?;
        let known = match reference.resolve_char_ref()? {
            Some(character) => is_allowed(character),
            None => resolve_predefined_entity(reference).is_some(),
        };
        let written = format!("&{};", &**reference);
        if known { Ok(()) } else { Err(found(quoted(written.as_bytes()), "a known reference")) }
    }

    fn instruction(&self, target: &str, content: &str) -> Result<(), Problem> {
        if target.eq_ignore_ascii_case("xml") {
            return Err(found(quoted(target.as_bytes()), "another name of an instruction"));
        }
        check_name(target)?;
        self.characters(content)
    }

    fn declaration(&mut self, declaration: &BytesDecl<'_>, at_start: bool) -> Result<(), Problem> {
        if !at_start {
            return Err(found("an XML declaration here", "it at the start of the file"));
        }
        let content: &str = declaration;
        self.split(&BytesStart::from_content(content, "xml".len()))?;
        let part = |range: &Range<u32>| &content[range.start as usize - 1..range.end as usize - 1];
        let mut expected = ["version", "encoding", "standalone"].into_iter();
        for span in &self.attributes {
            let (key, value) = (part(&span.name), part(&span.value));
            // In this order, and nothing else.
            if !expected.any(|name| name == key) {
                let problem = format!("{} in the XML declaration", quoted(key.as_bytes()));
                return Err(found(problem, "version, encoding and standalone in this order"));
            }
            let wanted = match key {
                // A document of another 1.x is read as one of 1.0.
                "version" => {
                    let minor = value.strip_prefix("1.").unwrap_or_default();
                    let known =
                        !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
                    (!known).then_some("1.0")
                }
                "encoding" => match value.to_ascii_lowercase().as_str() {
                    "utf-8" | "utf8" => None,
                    // They agree on ASCII. Older versions of SUMO declared ISO-8859-1 throughout.
                    "us-ascii" | "ascii" | "iso-8859-1" | "iso-8859-15" | "windows-1252" => {
                        self.ascii_only = true;
                        None
                    }
                    _ => Some("UTF-8"),
                },
                _ => (!matches!(value, "yes" | "no")).then_some("yes or no"),
            };
            if let Some(wanted) = wanted {
                return Err(found(format!("{key} {}", quoted(value.as_bytes())), wanted));
            }
        }
        if self.attributes.first().is_none_or(|span| part(&span.name) != "version") {
            return Err(found("an XML declaration without a version", "version=\"1.0\""));
        }
        Ok(())
    }

    fn document_type(&mut self, text: &str) -> Result<(), Problem> {
        if self.part != Part::Prolog || self.has_type {
            return Err(found("a document type here", "at most one, before the root"));
        }
        self.has_type = true;
        // Declarations could define entities and defaults of attributes. What is quoted is the
        // name of a file, which is not opened.
        let mut quote = None;
        for byte in text.bytes() {
            match (quote, byte) {
                (None, b'"' | b'\'') => quote = Some(byte),
                (Some(open), _) if open == byte => quote = None,
                (None, b'[') => return Err(found("declarations in a document type", "none")),
                _ => {}
            }
        }
        self.characters(text)
    }

    fn end_of_file(&self) -> Result<(), Problem> {
        match self.part {
            Part::Prolog => Err(found("no element", format!("<{}>", self.root))),
            Part::Root => Err(Problem::CutOff),
            Part::Epilog => Ok(()),
        }
    }

    /// What may only be within the root.
    fn inside(&self, what: &str) -> Result<(), Problem> {
        match self.part {
            Part::Root => Ok(()),
            Part::Prolog => Err(found(what, format!("<{}>", self.root))),
            Part::Epilog => Err(found(what, format!("the end of the file after </{}>", self.root))),
        }
    }

    fn characters(&self, text: &str) -> Result<(), Problem> {
        if self.ascii_only && !text.is_ascii() {
            return Err(found(
                "characters outside ASCII in an encoding that is not UTF-8",
                "UTF-8",
            ));
        }
        check_characters(text)
    }
}

/// One of 64 bits for each name.
#[inline]
fn bit_of(name: &[u8]) -> u64 {
    let ends = name.first().zip(name.last());
    let hash = ends.map_or(0, |(&first, &last)| 5 * u64::from(first) + u64::from(last));
    1 << ((hash + name.len() as u64) % 64)
}

/// Bytes that may begin a name, that may stand within it, and that a value reads as they are.
const BEGINS_NAME: u8 = 1;
const IN_NAME: u8 = 2;
const IN_PLAIN_VALUE: u8 = 4;

/// What each byte may be. Characters outside ASCII may be part of a name: which of them are letters
/// is not looked up.
const BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        if byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':' | 128..) {
            table[index] |= BEGINS_NAME | IN_NAME;
        } else if byte.is_ascii_digit() || matches!(byte, b'-' | b'.') {
            table[index] |= IN_NAME;
        }
        if matches!(byte, b' '..=b'~') && !matches!(byte, b'<' | b'&' | b'"') {
            table[index] |= IN_PLAIN_VALUE;
        }
        index += 1;
    }
    table
};

#[inline]
fn is(byte: u8, what: u8) -> bool {
    BYTES[usize::from(byte)] & what != 0
}

/// The length of the name at the beginning of a text; 0 if there is none.
#[inline]
fn name_length(text: &[u8]) -> usize {
    match text.first() {
        Some(&byte) if is(byte, BEGINS_NAME) => {
            text.iter().position(|&byte| !is(byte, IN_NAME)).unwrap_or(text.len())
        }
        _ => 0,
    }
}

fn check_name(name: &str) -> Result<(), Problem> {
    if (1..=MAX_NAME).contains(&name.len()) && name_length(name.as_bytes()) == name.len() {
        return Ok(());
    }
    Err(found(quoted(name.as_bytes()), format!("a name of at most {MAX_NAME} bytes")))
}

fn is_allowed(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => character >= ' ',
    }
}

fn check_characters(text: &str) -> Result<(), Problem> {
    match text.chars().find(|&character| !is_allowed(character)) {
        None => Ok(()),
        Some(character) => Err(found(
            format!("the character U+{:04X}", u32::from(character)),
            "characters that XML allows",
        )),
    }
}

/// A start tag with its attributes.
#[derive(Clone, Copy)]
pub struct Element<'a> {
    file: &'a XmlFile,
}

impl<'a> Element<'a> {
    /// Its name.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        &self.file.buffer[1..=self.file.document.name]
    }

    /// An attribute's text, if it is there.
    pub fn find(&self, name: &str) -> Result<Option<&'a str>, SumoFileError> {
        let Some((_, value)) = self.attributes().find(|(key, _)| *key == name.as_bytes()) else {
            return Ok(None);
        };
        match std::str::from_utf8(value) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(self.wrong(name, &quoted(value), "text in UTF-8")),
        }
    }

    /// An attribute's text.
    pub fn text(&self, name: &str) -> Result<&'a str, SumoFileError> {
        self.find(name)?.ok_or_else(|| self.wrong(name, "nothing", "this attribute"))
    }

    /// An attribute that is a number of 0 or more.
    pub fn number(&self, name: &str) -> Result<f64, SumoFileError> {
        let text = self.text(name)?;
        parse_magnitude(text.as_bytes())
            .ok_or_else(|| self.wrong(name, &quoted(text.as_bytes()), "a number of 0 or more"))
    }

    /// An attribute that is a number of any sign.
    pub(crate) fn signed(&self, name: &str) -> Result<f64, SumoFileError> {
        let text = self.text(name)?;
        parse_number(text.as_bytes())
            .filter(|number| number.is_finite())
            .ok_or_else(|| self.wrong(name, &quoted(text.as_bytes()), "a number"))
    }

    /// The error that an attribute has the wrong value.
    pub(crate) fn wrong(&self, name: &str, found: &str, expected: &str) -> SumoFileError {
        let field = format!("{} {name}", String::from_utf8_lossy(self.name()));
        self.file.locate(Fault::new(&field, found, expected))
    }

    /// All attributes: names and values.
    #[inline]
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let XmlFile { buffer, document, .. } = self.file;
        let part = |range: &Range<u32>| &buffer[range.start as usize..range.end as usize];
        document.attributes.iter().map(move |span| (part(&span.name), part(&span.value)))
    }
}

#[cfg(test)]
mod tests;
