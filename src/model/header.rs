//! Own request headers of a destination or a delivery, and the names that are ours alone.

use std::fmt;

/// The most bytes in a header's value.
pub const MAX_VALUE: usize = 1024;
/// The most bytes in a header's name.
pub const MAX_NAME: usize = 64;

/// A header a producer or an operator adds to the requests. The name is lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Header {
    name: Box<str>,
    value: Box<str>,
}

/// Why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    #[error("not a header name of at most 64 characters")]
    Name,
    #[error("this header name is reserved: duehook or HTTP sets it")]
    Reserved,
    #[error("a header value is at most 1,024 bytes of visible ASCII, spaces and tabs, with none at its ends")]
    Value,
}

/// Names that HTTP or duehook sets itself (API.md, *Reserved header names*). Besides these,
/// everything that begins with `webhook-` or `duehook-`.
const RESERVED: [&str; 15] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
    "idempotency-key",
];

impl Header {
    /// Checks a name and a value. The name's case is dropped.
    ///
    /// # Errors
    /// [`BadHeader`] says which of the two is at fault.
    pub fn new(name: &str, value: &str) -> Result<Header, BadHeader> {
        let name = name.to_ascii_lowercase();
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_token) {
            return Err(BadHeader::Name);
        }
        if RESERVED.contains(&&*name) || name.starts_with("webhook-") || name.starts_with("duehook-") {
            return Err(BadHeader::Reserved);
        }
        if !is_value(value) {
            return Err(BadHeader::Value);
        }
        Ok(Header { name: name.into(), value: value.into() })
    }

    /// The name, in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value, to be sent but never logged or shown.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

/// `tchar` of RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// True for what may stand after the colon: no control characters, so that no value can
/// begin a second header (RFC 9110 section 5.5).
#[must_use]
pub fn is_value(value: &str) -> bool {
    let inner = value.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b));
    inner && value.len() <= MAX_VALUE && value.trim_matches([' ', '\t']) == value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values() {
        let check = |name: &str, value: &str, want: Result<&str, BadHeader>| {
            let got = Header::new(name, value);
            assert_eq!(got.as_ref().map(Header::name).map_err(|e| *e), want, "{name:?}: {value:?}");
        };
        check("X-Api-Key", "s3cret", Ok("x-api-key"));
        check("Authorization", "Bearer a b", Ok("authorization"));
        check("x", "", Ok("x"));
        check("User-Agent", "shop/1", Ok("user-agent"));
        check("", "v", Err(BadHeader::Name));
        check("a b", "v", Err(BadHeader::Name));
        check("a\r\nb", "v", Err(BadHeader::Name));
        check("ä", "v", Err(BadHeader::Name));
        check(&"x".repeat(65), "v", Err(BadHeader::Name));
        for name in ["HOST", "Content-Length", "TE", "Idempotency-Key", "Webhook-Id", "duehook-x", "Expect"] {
            check(name, "v", Err(BadHeader::Reserved));
        }
        for value in ["a\r\nb: c", "a\nb", "\0", " a", "a\t", "é", &"v".repeat(1025)] {
            check("x", value, Err(BadHeader::Value));
        }
    }
}
