//! What texts look like, as regular expressions of ECMA-262.

/// A tenant, a destination, a class, a policy.
pub const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
/// A delivery's id: 128 bits in Crockford's digits.
pub const DELIVERY_ID: &str = "^dlv_[0-7][0-9A-HJKMNP-TV-Z]{25}$";
/// A bulk job's id, likewise.
pub const JOB_ID: &str = "^job_[0-7][0-9A-HJKMNP-TV-Z]{25}$";
/// A key: visible ASCII without `"` and `\`.
pub const KEY: &str = r"^[!#-\[\]-~]{1,255}$";
/// The same as a header, where it may stand in quotes.
pub const KEY_HEADER: &str = r#"^("[!#-\[\]-~]{1,255}"|[!#-\[\]-~]{1,255})$"#;
/// The name of a header (RFC 9110, section 5.6.2).
pub const HEADER_NAME: &str = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$";
/// The value of a header, and what can be a `Content-Type`.
pub const HEADER_VALUE: &str = "^[ -~]*$";
/// A digest.
pub const SHA256: &str = "^[0-9a-fA-F]{64}$";
/// A secret of Standard Webhooks.
pub const SECRET: &str = "^(whsec_|whsk_)[A-Za-z0-9+/]+={0,2}$";
/// One line.
pub const LINE: &str = r"^[^\x00-\x1F\x7F-\x9F]*$";
/// Where deliveries go.
pub const URL: &str = "^https?://";
/// The absolute path of a file.
pub const PATH: &str = "^/(.*/)?[^/]+$";
/// A label and its value: whatever a label can be, which may have colons in its value.
pub const LABEL: &str = r"^[^:]{1,64}:[\s\S]{0,256}$";
/// A network such as 10.0.0.0/8.
pub const CIDR: &str = "^[0-9A-Fa-f.:]+/[0-9]{1,3}$";

#[cfg(test)]
mod tests {
    use jsonschema::is_valid;
    use serde_json::json;

    use super::*;
    use crate::model::{DeliveryId, IdempotencyKey, Name};

    /// What the code reads and what the document says are the same.
    #[test]
    fn patterns_say_what_the_code_reads() {
        let check = |pattern: &str, text: &str, good: bool| {
            assert_eq!(is_valid(&json!({"pattern": pattern}), &json!(text)), good, "{pattern} {text:?}");
        };
        for text in ["a", "Shop-eu.1_x", "", "-a", ".a", "a b", "a/b", "ä", &"x".repeat(64), &"x".repeat(65)]
        {
            check(NAME, text, text.parse::<Name>().is_ok());
        }
        let zeros = "0".repeat(25);
        for text in [format!("dlv_0{zeros}"), format!("dlv_8{zeros}"), format!("dlv_0{zeros}0")] {
            check(DELIVERY_ID, &text, text.parse::<DeliveryId>().is_ok());
        }
        for text in (0..=255_u8).map(|byte| String::from(char::from(byte))) {
            check(KEY, &text, text.parse::<IdempotencyKey>().is_ok());
        }
        for text in ["\"a\"", "a", "\"a", "a\"", "\"\"", ""] {
            check(KEY_HEADER, text, IdempotencyKey::from_header(text).is_ok());
        }
    }
}
