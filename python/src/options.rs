//! Keyword arguments as the typed options of the library: a `serde` deserializer of Python's values.
//!
//! | Python | option |
//! |---|---|
//! | `None` | as if not given |
//! | `int`, `float`, numbers of NumPy | a number; a float without a fraction is a whole number too |
//! | `str`, `os.PathLike` | a name or a path; where a list is expected, names between commas |
//! | an iterable, or one value | a list |
//! | `dict` | options of a part, such as `federation` |

use std::fmt::{self, Display};
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyString};
use serde::Deserializer;
use serde::de::value::SeqDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error as _, Expected, IntoDeserializer, MapAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::errors::wrong;

/// Options from a dictionary; what does not fit is refused by its keyword.
pub(crate) fn options<T: DeserializeOwned>(given: &Bound<'_, PyDict>) -> PyResult<T> {
    T::deserialize(Value(given.clone().into_any())).map_err(|refused| match refused {
        Refused::Raised(error) => error,
        wrong_value => wrong(given.py(), wrong_value.to_string()),
    })
}

/// Why a value is no option.
#[derive(Debug)]
enum Refused {
    /// By Python, while the value was looked at.
    Raised(PyErr),
    Wrong {
        keyword: Option<String>,
        problem: String,
    },
}

impl Refused {
    /// The innermost keyword is the one that the caller knows.
    fn at(self, keyword: &str) -> Self {
        match self {
            Self::Wrong { keyword: None, problem } => {
                Self::Wrong { keyword: Some(keyword.to_owned()), problem }
            }
            other => other,
        }
    }
}

impl Display for Refused {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raised(error) => error.fmt(to),
            Self::Wrong { keyword: Some(keyword), problem } => write!(to, "{keyword}: {problem}"),
            Self::Wrong { keyword: None, problem } => to.write_str(problem),
        }
    }
}

impl std::error::Error for Refused {}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl serde::de::Error for Refused {
    fn custom<T: Display>(problem: T) -> Self {
        Self::Wrong { keyword: None, problem: problem.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("found {}, expected {}", Found(found), in_words(expected)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("found `{found}`, expected one of {}", expected.join(", ")))
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        let expected = expected.join(", ");
        Self::custom(format_args!("found an unknown keyword, expected one of {expected}")).at(found)
    }

    fn missing_field(name: &'static str) -> Self {
        Self::custom("found none, expected one").at(name)
    }
}

/// What was found, as Python writes it.
struct Found<'a>(Unexpected<'a>);

impl Display for Found<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unexpected::Bool(true) => to.write_str("True"),
            Unexpected::Bool(false) => to.write_str("False"),
            Unexpected::Unsigned(number) => number.fmt(to),
            Unexpected::Signed(number) => number.fmt(to),
            Unexpected::Float(number) => number.fmt(to),
            Unexpected::Str(text) => write!(to, "`{text}`"),
            Unexpected::Seq => to.write_str("a list"),
            Unexpected::Map => to.write_str("a dictionary"),
            other => other.fmt(to),
        }
    }
}

/// What was expected, without Rust's names of types.
fn in_words(expected: &dyn Expected) -> String {
    let expected = expected.to_string();
    match expected.as_str() {
        "f32" | "f64" => "a number".to_owned(),
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "a boolean" => "True or False".to_owned(),
        "path string" => "a path".to_owned(),
        text if text.starts_with("struct ") => "a dictionary".to_owned(),
        _ => expected,
    }
}

/// A value of Python.
#[derive(Clone)]
struct Value<'py>(Bound<'py, PyAny>);

/// Whole numbers up to this are the same as floats.
const MOST_WHOLE: f64 = 9_007_199_254_740_992.0;

impl<'py> Value<'py> {
    /// The text of a string or a path.
    fn text(&self) -> Result<Option<String>, Refused> {
        if let Ok(text) = self.0.cast::<PyString>() {
            return Ok(Some(text.to_str()?.to_owned()));
        }
        if !self.0.hasattr("__fspath__")? {
            return Ok(None);
        }
        let path: PathBuf = self.0.extract()?;
        let text = path.into_os_string().into_string();
        let not_text =
            |path| Refused::custom(format_args!("found the path {path:?}, expected one in UTF-8"));
        text.map(Some).map_err(not_text)
    }

    /// The members of a list; one value is a list of itself.
    fn members(self) -> Result<Vec<Self>, Refused> {
        if let Ok(names) = self.0.cast::<PyString>() {
            let (py, names) = (self.0.py(), names.to_str()?);
            let name = |name: &str| Self(PyString::new(py, name.trim()).into_any());
            return Ok(names.split(',').map(name).collect());
        }
        if self.0.is_instance_of::<PyDict>() || self.0.hasattr("__fspath__")? {
            return Ok(vec![self]);
        }
        match self.0.try_iter() {
            Ok(members) => Ok(members.map(|member| member.map(Self)).collect::<PyResult<_>>()?),
            Err(_) => Ok(vec![self]),
        }
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: f64, visitor: V) -> Result<V::Value, Refused> {
    if number.fract() != 0.0 || number.abs() > MOST_WHOLE {
        visitor.visit_f64(number)
    } else if number < 0.0 {
        visitor.visit_i64(number as i64)
    } else {
        visitor.visit_u64(number as u64)
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let value = &self.0;
        if value.is_none() {
            return visitor.visit_unit();
        }
        if let Ok(flag) = value.extract::<bool>() {
            return visitor.visit_bool(flag);
        }
        if let Ok(number) = value.cast::<PyFloat>() {
            return visit_number(number.value(), visitor);
        }
        if let Ok(given) = value.cast::<PyDict>() {
            return visitor.visit_map(Keywords::new(given)?);
        }
        if let Some(text) = self.text()? {
            return visitor.visit_string(text);
        }
        if value.try_iter().is_ok() {
            return self.deserialize_seq(visitor);
        }
        if let Ok(number) = value.extract::<u64>() {
            return visitor.visit_u64(number);
        }
        if let Ok(number) = value.extract::<i64>() {
            return visitor.visit_i64(number);
        }
        if let Ok(number) = value.extract::<f64>() {
            return visit_number(number, visitor);
        }
        let kind = value.get_type().qualname()?;
        let found = format!("a value of type {kind}");
        Err(Refused::invalid_type(Unexpected::Other(&found), &visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.0.is_none() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_seq(SeqDeserializer::new(self.members()?.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        match self.0.cast::<PyString>() {
            Ok(name) => visitor.visit_enum(name.to_str()?.into_deserializer()),
            Err(_) => Err(Refused::unknown_variant(&self.0.str()?.to_string_lossy(), names)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Refused> for Value<'_> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

/// The keywords that are given, with their values.
struct Keywords<'py> {
    left: std::vec::IntoIter<(String, Value<'py>)>,
    now: Option<(String, Value<'py>)>,
}

impl<'py> Keywords<'py> {
    fn new(given: &Bound<'py, PyDict>) -> PyResult<Self> {
        let given = given.iter().filter(|(_, value)| !value.is_none());
        let given = given.map(|(keyword, value)| Ok((keyword.extract()?, Value(value))));
        let left = given.collect::<PyResult<Vec<_>>>()?.into_iter();
        Ok(Self { left, now: None })
    }
}

impl<'de> MapAccess<'de> for Keywords<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        self.now = self.left.next();
        match &self.now {
            Some((keyword, _)) => seed.deserialize(keyword.as_str().into_deserializer()).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        let Some((keyword, value)) = self.now.take() else {
            return Err(Refused::custom("found a value before its keyword"));
        };
        seed.deserialize(value).map_err(|refused| refused.at(&keyword))
    }
}
