use std::fmt::Write as _;
use std::io::Cursor;

use proptest::prelude::*;

use super::*;

/// An element's name, and its attributes.
type Parsed = (String, Vec<(String, String)>);

fn open(bytes: &[u8]) -> Result<XmlFile, SumoFileError> {
    XmlFile::from_reader(Path::new("a.xml"), Box::new(Cursor::new(bytes.to_vec())), "net")
}

fn all(bytes: impl AsRef<[u8]>) -> Result<Vec<Parsed>, SumoFileError> {
    let mut file = open(bytes.as_ref())?;
    let mut elements = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    while let Some(element) = file.next_element()? {
        let attributes = element.attributes().map(|(name, value)| (text(name), text(value)));
        elements.push((text(element.name()), attributes.collect()));
    }
    Ok(elements)
}

fn names(bytes: impl AsRef<[u8]>) -> Result<Vec<String>, SumoFileError> {
    Ok(all(bytes)?.into_iter().map(|(name, _)| name).collect())
}

/// The value of `v` in the only element below the root.
fn value(written: &str) -> Result<String, SumoFileError> {
    let [(_, attributes)] = &all(format!("<net>\n<a {written}/></net>"))?[..] else {
        panic!("one element in {written}")
    };
    let [(name, value)] = &attributes[..] else { panic!("one attribute in {written}") };
    assert_eq!(name, "v");
    Ok(value.clone())
}

fn assert_refused(bytes: impl AsRef<[u8]>, expected: &str) {
    let shown = String::from_utf8_lossy(bytes.as_ref()).into_owned();
    let error = names(bytes).expect_err(&shown).to_string();
    assert!(error.starts_with("a.xml: ") && error.contains(expected), "{shown}: {error}");
}

#[test]
fn elements_come_in_order_and_comments_do_not() {
    let text = "<?xml version=\"1.0\"?>\n<!-- <a/> > -->\n<net x='1'>\n <b q=\"2\"><c/></b>\n\
                <![CDATA[<d/> & ]]><e></e >text &amp; more<f/>&#65;<g/><?h <i/> ?>\n</net>\n<!-- -->\n";
    assert_eq!(names(text).unwrap(), ["b", "c", "e", "f", "g"]);
    assert_eq!(names("<net/>").unwrap(), [""; 0]);
    assert_eq!(names("<net></net>").unwrap(), [""; 0]);
}

#[test]
fn attributes_are_found_and_checked() {
    let text = "<net>\n<a id=\"x&amp;y\" n = \"1\"/>\n<a n=\"-1\" s='2.5'/></net>";
    let mut file = open(text.as_bytes()).unwrap();
    let element = file.next_element().unwrap().unwrap();
    assert_eq!(element.text("id").unwrap(), "x&y");
    assert_eq!(element.number("n").unwrap(), 1.0);
    let element = file.next_element().unwrap().unwrap();
    assert_eq!(element.number("s").unwrap(), 2.5);
    assert_eq!(element.signed("n").unwrap(), -1.0);
    let error = element.number("n").unwrap_err().to_string();
    assert_eq!(error, "a.xml: line 3: a n: found `-1`, expected a number of 0 or more");
    let error = element.number("m").unwrap_err().to_string();
    assert_eq!(error, "a.xml: line 3: a m: found nothing, expected this attribute");
}

#[test]
fn values_are_normalised() {
    for (written, expected) in [
        // As SUMO writes prohibitions.
        (r#"v="a->b""#, "a->b"),
        (r#"v="/>""#, "/>"),
        (r#"v='"'"#, "\""),
        (r#"v="'""#, "'"),
        ("v  =\n\t'1'", "1"),
        (r#"v="""#, ""),
        (r#"v="&lt;&gt;&amp;&quot;&apos;""#, "<>&\"'"),
        (r#"v="&amp;lt;""#, "&lt;"),
        (r#"v="&#65;&#x42;&#xFC;""#, "ABü"),
        (r#"v="&#10;&#9;""#, "\n\t"),
        ("v=\"a\nb\tc\r\nd\"", "a b c d"),
        ("v=\"Königsallee – 東京\"", "Königsallee – 東京"),
        (r#"v="]]>""#, "]]>"),
        (r#"v="<!-->""#, "refused"),
    ] {
        match value(written) {
            Ok(value) => assert_eq!(value, expected, "{written}"),
            Err(_) => assert_eq!("refused", expected, "{written}"),
        }
    }
    // A prefix makes another name.
    let text = r#"<net xmlns:x="u"><a x:v="1" v="2"/><x:a/></net>"#;
    let mut file = open(text.as_bytes()).unwrap();
    assert_eq!(file.next_element().unwrap().unwrap().text("v").unwrap(), "2");
    assert_eq!(file.next_element().unwrap().unwrap().name(), b"x:a");
}

#[test]
fn attributes_that_are_not_well_formed_are_refused() {
    for (written, expected) in [
        ("v", "line 2: attributes: found `v`, expected name=\"value\""),
        ("v=", "attributes: found `v=`"),
        ("v=1", "attributes: found `v=1"),
        (r#"v="1" w"#, "attributes: found `w"),
        (r#"v="1"w="2""#, "found `w`, expected white space before an attribute"),
        (r#"v="1" v="1""#, "line 2: found attribute `v` twice"),
        (r#"v="1" w="1" v='2'"#, "line 2: found attribute `v` twice"),
        (r#"1v="1""#, "found `1v`, expected a name"),
        (r#"v&w="1""#, "found `v&w`, expected a name"),
        (r#"="1""#, "attributes: found `=\"1\"`"),
        (r#"v="<""#, "found `<` in `<`, expected `&lt;`"),
        (r#"v="&""#, "expected known references"),
        (r#"v="a & b""#, "expected known references"),
        (r#"v="&nbsp;""#, "found `&nbsp;`, expected known references"),
        (r#"v="&#0;""#, "expected known references"),
        (r#"v="&#x110000;""#, "expected known references"),
        (r#"v="&#8;""#, "found the character U+0008"),
        ("v=\"\u{1}\"", "found the character U+0001"),
        ("v=\"\u{ffff}\"", "found the character U+FFFF"),
    ] {
        assert_refused(format!("<net>\n<a {written}/>\n</net>"), expected);
        // Also in an element with content, and in the root.
        let expected = expected.trim_start_matches("line 2: ");
        assert_refused(format!("<net>\n<a><b {written}></b></a>\n</net>"), expected);
        assert_refused(format!("<net {written}>\n</net>"), expected);
    }
}

#[test]
fn what_is_around_the_root_is_checked() {
    for (text, expected) in [
        ("plain text", "line 1: found text `plain text`, expected <net>"),
        ("\nx<net/>", "line 2: found text `x`, expected <net>"),
        ("<![CDATA[x]]><net/>", "found a CDATA section, expected <net>"),
        ("&amp;<net/>", "found a reference, expected <net>"),
        ("<net/>\nx", "line 2: found text `x`, expected the end of the file after </net>"),
        ("<net/><net/>", "found element `net`, expected the end of the file after </net>"),
        ("<net></net><a>", "found element `a`, expected the end of the file"),
        ("<net/></net>", "found the end of `net`"),
        ("</net>", "found the end of `net`"),
        ("<fcd/>", "line 1: found element `fcd`, expected <net>"),
        ("<x:net/>", "found element `x:net`, expected <net>"),
        ("<!-- only -->", "found no element, expected <net>"),
        ("\n<?xml version='1.0'?><net/>", "found an XML declaration here"),
        ("<net><?xml version='1.0'?></net>", "found an XML declaration here"),
        ("<?xml version='2.0'?><net/>", "found version `2.0`, expected 1.0"),
        ("<?xml version='1.x'?><net/>", "found version `1.x`, expected 1.0"),
        ("<?xml version='1.0'encoding='UTF-8'?><net/>", "expected white space"),
        ("<?xml encoding='UTF-8'?><net/>", "an XML declaration without a version"),
        ("<?xml?><net/>", "an XML declaration without a version"),
        ("<?xml version='1.0' a='b'?><net/>", "found `a` in the XML declaration"),
        ("<?xml version='1.0' encoding='UTF-8'? ><net/><?p ?>", "attributes: found"),
        ("<?xml version='1.0' standalone='no' encoding='UTF-8'?><net/>", "in this order"),
        ("<?xml version='1.0' standalone='maybe'?><net/>", "found standalone `maybe`"),
        ("<?XML a?><net/>", "found `XML`"),
        ("<!DOCTYPE net [<!ENTITY a 'b'>]><net/>", "found declarations in a document type"),
        ("<!DOCTYPE net><!DOCTYPE net><net/>", "found a document type here"),
        ("<net/><!DOCTYPE net>", "found a document type here"),
        ("<!ELEMENT net><net/>", "expected `<!--, <![CDATA[ or <!DOCTYPE`"),
    ] {
        assert_refused(text, expected);
    }
    let text = "\u{feff}<?xml version='1.0' encoding='utf-8' standalone='yes'?><!-- - --> <?p q?>\n\
                <!DOCTYPE net SYSTEM '[net].dtd'><net><a/></net> <!-- --> <?p q?>\n";
    assert_eq!(names(text).unwrap(), ["a"]);
}

#[test]
fn content_is_checked() {
    for (content, expected) in [
        ("<a>\n</b>", "line 3: found the end of `b`, expected that of `a`"),
        ("<a></a b='1'>", "found the end of `a b='1'`"),
        ("</a>", "found the end of `a`, expected that of `net`"),
        ("<a>", "found the end of `net`, expected that of `a`"),
        ("< a/>", "expected a name"),
        ("<a\0/>", "expected a name"),
        ("<>", "expected a name"),
        ("<a /", "line 2: "),
        ("a & b", "found `&` without `;`"),
        ("&unknown;", "found `&unknown;`, expected a known reference"),
        ("&#1;", "expected a known reference"),
        ("]]>", "found `]]>` in text"),
        ("a\u{8}", "found the character U+0008"),
        ("<!-- a -- b -->", "found `--` within a comment"),
        ("<!-- \u{8} -->", "found the character U+0008"),
        ("<![CDATA[ \u{8} ]]>", "found the character U+0008"),
        ("<![cdata[ ]]>", "expected `<![CDATA[ … ]]>`"),
    ] {
        assert_refused(format!("<net>\n{content}</net>"), expected);
    }
}

#[test]
fn encodings_other_than_utf_8_are_refused() {
    let declared = |encoding: &str, id: &[u8]| {
        let head = format!("<?xml version=\"1.0\" encoding=\"{encoding}\"?><net><a v=\"");
        [head.as_bytes(), id, b"\"/></net>"].concat()
    };
    assert!(names(declared("UTF-8", "ü".as_bytes())).is_ok());
    assert_refused(declared("UTF-8", b"\xfc"), "found bytes that are not UTF-8");
    // Older versions of SUMO declare it, and nearly all their files are ASCII.
    assert!(names(declared("iso-8859-1", b"u")).is_ok());
    assert_refused(declared("iso-8859-1", b"\xfc"), "not UTF-8");
    assert_refused(declared("iso-8859-1", "ü".as_bytes()), "not UTF-8");
    assert_refused(declared("Shift_JIS", b"u"), "found encoding `Shift_JIS`, expected UTF-8");
    for swap in [u16::to_le_bytes, u16::to_be_bytes] {
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}<net/>");
            let bytes: Vec<u8> = text.encode_utf16().flat_map(swap).collect();
            assert_refused(bytes, "found text in UTF-16, expected UTF-8");
        }
    }
}

#[test]
fn files_cut_off_are_refused_with_their_line() {
    for (text, expected) in [
        ("", "a.xml: the file is empty, expected net"),
        (" \n ", "a.xml: the file is empty, expected net"),
        ("\u{feff}", "a.xml: the file is empty, expected net"),
        ("<net>\n<a/>", "line 2: the file ends too early, expected </net>"),
        ("<net>\n<a b=\"", "line 2: the file ends too early, expected `\"`"),
        ("<net>\n<a b=\"\n1\n", "line 2: the file ends too early, expected `\"`"),
        ("<net>\n<a b='", "line 2: the file ends too early, expected `'`"),
        ("<net>\n<a", "line 2: the file ends too early, expected `>`"),
        ("<net>\n<", "line 2: the file ends too early, expected `>`"),
        ("<net>\n<!-- ", "line 2: the file ends too early, expected `<!-- … -->`"),
        ("<net>\n<![CDATA[ ", "line 2: the file ends too early, expected `<![CDATA[ … ]]>`"),
        ("<?xml version='1.0'", "line 1: the file ends too early, expected `?>`"),
        ("<net>\n</nut>", "line 2: found the end of `nut`, expected that of `net`"),
    ] {
        assert_refused(text, expected);
    }
}

#[test]
fn a_lost_quote_is_found_where_it_was_lost() {
    let mut text = String::from("<net>\n");
    for row in 0..1000 {
        let quote = if row == 500 { "" } else { "\"" };
        writeln!(text, "<a id=\"{row}{quote} v=\"1\"/>").unwrap();
    }
    assert_refused(text + "</net>", "line 502: ");
}

#[test]
fn hostile_sizes_are_refused() {
    let deep = |depth: usize| format!("<net>{}{}</net>", "<a>".repeat(depth), "</a>".repeat(depth));
    assert_eq!(names(deep(MAX_DEPTH - 1)).unwrap().len(), MAX_DEPTH - 1);
    assert_refused(deep(MAX_DEPTH), "found elements nested deeper, expected at most 100");
    let deep = format!("<net>{}<a v=\"&#10;&#10;\">", "<a>".repeat(MAX_DEPTH - 1));
    assert_refused(deep, "line 1: found elements nested deeper");
    for name in ["n".repeat(MAX_NAME), "n".repeat(MAX_NAME + 1)] {
        let allowed = name.len() <= MAX_NAME;
        assert_eq!(names(format!("<net><{name}/></net>")).is_ok(), allowed);
        assert_eq!(names(format!("<net><{name}></{name}></net>")).is_ok(), allowed);
        assert_eq!(names(format!("<net><a {name}=\"1\"/></net>")).is_ok(), allowed);
    }
    let many = |count: usize| {
        let attributes: String = (0..count).map(|index| format!(" a{index}=''")).collect();
        format!("<net><a{attributes}/></net>")
    };
    assert_eq!(all(many(MAX_ATTRIBUTES)).unwrap()[0].1.len(), MAX_ATTRIBUTES);
    assert_refused(many(MAX_ATTRIBUTES + 1), "found an element of more attributes");
    // Without an end: refused before it fills the memory.
    for begin in ["<net><a v=\"", "<net><!--", "<net>", "<", "<net>text", "<net><![CDATA[", "<?p "]
    {
        let endless = Cursor::new(begin.as_bytes().to_vec()).chain(std::io::repeat(b' '));
        let mut file = XmlFile::from_reader(Path::new("a.xml"), Box::new(endless), "net").unwrap();
        let error = file.next_element().err().unwrap().to_string();
        assert!(error.contains("found no end of the markup within 16777216 bytes"), "{error}");
    }
}

#[test]
fn markup_across_blocks_is_whole() {
    // Longer than a block of the source, with tags of many lengths and both ways of reading them.
    let mut text = String::from("<net>");
    for row in 0..40_000 {
        let end = if row % 3 == 0 { "></a>" } else { "/>" };
        writeln!(text, "<a id=\"{row}\" v=\"{}\"{end}", "v".repeat(row % 17)).unwrap();
    }
    let elements = all(text + "</net>").unwrap();
    assert_eq!(elements.len(), 40_000);
    for (row, (_, attributes)) in elements.iter().enumerate() {
        assert_eq!(attributes[0].1, row.to_string());
        assert_eq!(attributes[1].1, "v".repeat(row % 17));
    }
}

fn element() -> impl Strategy<Value = Parsed> {
    let name = "[a-zA-Z_][a-zA-Z0-9_.:-]{0,8}";
    let value = r#"([ -~]|[äß東\n\t"'<>&]){0,12}"#;
    (name, prop::collection::btree_map(name, value, 0..6))
        .prop_map(|(name, attributes)| (name, attributes.into_iter().collect()))
}

fn escape(text: &str, quote: char) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '\n' | '\t' => write!(escaped, "&#{};", u32::from(character)).unwrap(),
            _ if character == quote => write!(escaped, "&#x{:x};", u32::from(character)).unwrap(),
            // `>` may stay as it is.
            _ => escaped.push(character),
        }
    }
    escaped
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        elements in prop::collection::vec((element(), any::<[bool; 4]>()), 0..8),
    ) {
        let mut text = String::from("<net>");
        for ((name, attributes), [single, wide, open, comment]) in &elements {
            let quote = if *single { '\'' } else { '"' };
            let space = if *wide { "\n  " } else { " " };
            if *comment {
                text.push_str("<!-- <a/> -->");
            }
            write!(text, "\n<{name}").unwrap();
            for (key, value) in attributes {
                write!(text, "{space}{key}={quote}{}{quote}", escape(value, quote)).unwrap();
            }
            if *open { write!(text, "></{name}>") } else { write!(text, "/>") }.unwrap();
        }
        text.push_str("</net>");
        let expected: Vec<Parsed> = elements.into_iter().map(|(element, _)| element).collect();
        prop_assert_eq!(all(&text).unwrap(), expected);
    }

    /// Behind text, a tag is always read by quick-xml; elsewhere maybe by the short cut.
    #[test]
    fn the_short_cut_reads_tags_as_quick_xml_does(
        tag in r#"<[a-c/]( [a-c]="[a-c>' ]{0,2}"|[abc= "'/<>&;\n]){0,5}/?>"#,
    ) {
        let short = all(format!("<net>{tag}</net>"));
        let long = all(format!("<net>.{tag}</net>"));
        match (short, long) {
            (Ok(short), Ok(long)) => prop_assert_eq!(short, long),
            (Err(short), Err(long)) => prop_assert_eq!(short.to_string(), long.to_string()),
            (short, long) => prop_assert!(false, "{short:?} and {long:?}"),
        }
    }

    #[test]
    fn any_text_is_read_without_panic(text in r#"(<[a-c!?/]|/?>|"|'|=|&|;|--|\[CDATA\[|\]\]|[a-c #x1\n]){0,40}"#) {
        let _ = all(format!("<net>{text}</net>"));
        let _ = all(text);
    }

    #[test]
    fn a_file_cut_anywhere_is_refused(keep in 0.0..1.0_f64) {
        let text = "<?xml version=\"1.0\"?><net a='1'>\n<!-- c --><b v=\"1>2\"/><d>x</d><![CDATA[]]></net>";
        let cut = (text.len() as f64 * keep) as usize;
        prop_assert!(all(&text[..cut]).is_err());
    }
}
