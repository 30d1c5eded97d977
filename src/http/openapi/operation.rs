//! What is said of one operation, before it is written as a document.

use axum::http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::http::auth::{is_of_all_tenants, needs};
use crate::http::error::Code;

/// How a schema is made: by the struct that is answered, or by hand.
pub type Shape = fn(&mut SchemaGenerator) -> Schema;

/// The schema of a type, as a reference to its component.
pub fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Which listeners have an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Both,
    Ingest,
    Admin,
}

impl On {
    /// True when the document of the listener `of` has what is on `self`.
    #[must_use]
    pub fn is_in(self, of: On) -> bool {
        self == On::Both || self == of
    }
}

/// What an operation has to do with the engine, and so which refusals of its own making it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It is answered from memory.
    Memory,
    /// It reads the file, or asks the engine.
    Reads,
    /// It changes something.
    Changes,
}

/// A query parameter or a header of a request.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub about: &'static str,
    pub shape: Shape,
    /// Several values, with commas between them.
    pub list: bool,
    pub required: bool,
}

impl Parameter {
    /// A parameter that may be left out.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str, shape: Shape) -> Parameter {
        Parameter { name, about, shape, list: false, required: false }
    }

    /// One with a list of values.
    #[must_use]
    pub const fn list(name: &'static str, about: &'static str, shape: Shape) -> Parameter {
        Parameter { list: true, ..Parameter::new(name, about, shape) }
    }

    /// The same, and it must be there.
    #[must_use]
    pub const fn required(self) -> Parameter {
        Parameter { required: true, ..self }
    }
}

/// What a request carries.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    None,
    /// A JSON object that may be left out.
    Optional(Shape),
    /// A JSON object.
    Json(Shape),
    /// One of these media types.
    Media(&'static [(&'static str, Shape)]),
}

/// A good answer: one that is no problem.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub status: u16,
    pub about: &'static str,
    pub media: &'static str,
    /// None: it has no body, or one that is no JSON.
    pub shape: Option<Shape>,
    pub headers: &'static [&'static str],
}

impl Answer {
    /// A JSON document.
    #[must_use]
    pub const fn json(status: u16, about: &'static str, shape: Shape) -> Answer {
        Answer { status, about, media: "application/json", shape: Some(shape), headers: &[] }
    }

    /// A text of another media type.
    #[must_use]
    pub const fn text(about: &'static str, media: &'static str) -> Answer {
        Answer { status: 200, about, media, shape: None, headers: &[] }
    }

    /// 204.
    #[must_use]
    pub const fn none(about: &'static str) -> Answer {
        Answer { status: 204, about, media: "", shape: None, headers: &[] }
    }

    /// The same with these headers.
    #[must_use]
    pub const fn with(self, headers: &'static [&'static str]) -> Answer {
        Answer { headers, ..self }
    }
}

/// One operation of the API.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub method: &'static str,
    /// As the router has it.
    pub path: &'static str,
    pub id: &'static str,
    pub summary: &'static str,
    pub on: On,
    pub reach: Reach,
    pub query: &'static [Parameter],
    pub headers: &'static [Parameter],
    pub body: Body,
    pub answers: &'static [Answer],
    /// Besides those that follow from the rest.
    pub codes: &'static [Code],
}

impl Operation {
    /// An operation of the admin listener that takes nothing.
    #[must_use]
    pub const fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        answers: &'static [Answer],
    ) -> Operation {
        let reads = matches!(method.as_bytes(), b"GET");
        let reach = if reads { Reach::Reads } else { Reach::Changes };
        let (query, headers, codes): (&[Parameter], &[Parameter], &[Code]) = (&[], &[], &[]);
        let (on, body) = (On::Admin, Body::None);
        Operation { method, path, id, summary, on, reach, query, headers, body, answers, codes }
    }

    /// True where no token is ever asked for.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.path, "/healthz" | "/readyz")
    }

    /// The scopes of which one is needed.
    #[must_use]
    pub fn scopes(&self) -> Vec<&'static str> {
        let method = Method::from_bytes(self.method.as_bytes()).unwrap_or(Method::POST);
        needs(&method, self.path).any_of.iter().map(|scope| scope.as_str()).collect()
    }

    /// The subject it belongs to.
    #[must_use]
    pub fn subject(&self) -> &'static str {
        const SUBJECTS: [(&str, &str); 4] = [
            ("/v1/deliveries", "deliveries"),
            ("/v1/send", "deliveries"),
            ("/v1/batch", "deliveries"),
            ("/v1/destinations", "destinations"),
        ];
        let found = SUBJECTS.iter().find(|(begin, _)| self.path.starts_with(begin));
        found.map_or("server", |(_, subject)| subject)
    }

    /// Every code it can answer, in the order of [`super::codes::ALL`].
    #[must_use]
    pub fn all_codes(&self) -> Vec<Code> {
        let mut own = vec![Code::Malformed, Code::Invalid, Code::HostNotAllowed, Code::Internal];
        own.extend(self.codes);
        let changes = self.method != "GET";
        own.extend(changes.then_some(Code::OriginNotAllowed));
        if !self.is_open() {
            own.extend([Code::TokenRequired, Code::ScopeMissing]);
            own.extend((changes || is_of_all_tenants(self.path)).then_some(Code::TenantNotAllowed));
        }
        match self.reach {
            Reach::Memory => {}
            Reach::Reads => own.extend([Code::QueueFull, Code::ShuttingDown]),
            Reach::Changes => {
                own.extend([Code::QueueFull, Code::ShuttingDown, Code::BackupHold, Code::Damaged]);
            }
        }
        if !matches!(self.body, Body::None) {
            own.extend([Code::ContentType, Code::PayloadTooLarge, Code::BodyTimeout]);
        }
        super::codes::ALL.into_iter().filter(|code| own.contains(code)).collect()
    }
}
