//! Signing secrets as Standard Webhooks writes them, and the certificates of a destination.
//!
//! What is secret has no `Debug` that shows it, no `Display`, and leaves the process in three ways only:
//! as a signature, in an export, and once in the answer to who had it made. Nothing here signs.
//!
//! ```compile_fail,E0277
//! fn shown(it: &duehook::model::Secret) -> String { format!("{it}") }
//! ```
//! ```compile_fail,E0277
//! fn shown(it: &duehook::model::Secret) -> String { serde_json::to_string(it).unwrap() }
//! ```

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroize;

use crate::time::{Millis, Timestamp};

/// Live secrets of one destination (API.md).
pub const MAX_SECRETS: usize = 4;
/// Bytes of a symmetric secret (Standard Webhooks, *Signature scheme*: between 24 and 64).
pub const SYMMETRIC_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Bytes of an ed25519 seed (RFC 8032, section 5.1.5).
pub const SEED_BYTES: usize = 32;
/// How long the secret before goes on signing beside a new one (API.md).
pub const OVERLAP_DEFAULT: Millis = Millis(24 * 3_600_000);
/// An overlap that is longer is two secrets, not a rotation.
pub const MAX_OVERLAP: Millis = Millis(30 * 24 * 3_600_000);
/// Bytes of one PEM text, a chain of a dozen certificates: three of them and all headers fit a record.
pub const MAX_PEM: usize = 30 * 1024;

const SYMMETRIC_PREFIX: &str = "whsec_";
const ED25519_PREFIX: &str = "whsk_";
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A key that signs what goes to a destination. Its bytes are overwritten when it goes.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// HMAC-SHA256, `v1`: 24 to 64 bytes.
    Symmetric(Box<[u8]>),
    /// Ed25519, `v1a`: the seed.
    Ed25519([u8; SEED_BYTES]),
}

/// A secret and its end: None for the one in use, a time for one that was rotated out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSecret {
    pub secret: Secret,
    pub until: Option<Timestamp>,
}

/// Why a text is no secret. It does not repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be whsec_ and 24 to 64 bytes in base64, or whsk_ and an ed25519 private key of 32 or 64 bytes in base64"
)]
pub struct NotASecret;

impl Secret {
    /// A symmetric secret of these bytes; None unless they are 24 to 64.
    #[must_use]
    pub fn symmetric(bytes: &[u8]) -> Option<Secret> {
        SYMMETRIC_BYTES.contains(&bytes.len()).then(|| Secret::Symmetric(bytes.into()))
    }

    /// The text that the owner of the destination is given. Never logged, listed or shown twice.
    #[must_use]
    pub fn reveal(&self) -> String {
        let (prefix, bytes): (_, &[u8]) = match self {
            Secret::Symmetric(bytes) => (SYMMETRIC_PREFIX, bytes),
            Secret::Ed25519(seed) => (ED25519_PREFIX, seed),
        };
        format!("{prefix}{}", LENIENT.encode(bytes))
    }
}

impl FromStr for Secret {
    type Err = NotASecret;

    /// Of 64 bytes of an ed25519 key the second half is the public one, which follows from the first.
    fn from_str(text: &str) -> Result<Secret, NotASecret> {
        let bytes = |rest: &str| LENIENT.decode(rest).map_err(|_| NotASecret);
        if let Some(rest) = text.strip_prefix(SYMMETRIC_PREFIX) {
            return Secret::symmetric(&bytes(rest)?).ok_or(NotASecret);
        }
        let key = bytes(text.strip_prefix(ED25519_PREFIX).ok_or(NotASecret)?)?;
        match (key.len(), key.first_chunk()) {
            (SEED_BYTES | 64, Some(seed)) => Ok(Secret::Ed25519(*seed)),
            _ => Err(NotASecret),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        match self {
            Secret::Symmetric(bytes) => bytes.zeroize(),
            Secret::Ed25519(seed) => seed.zeroize(),
        }
    }
}

impl LiveSecret {
    /// One without an end.
    #[must_use]
    pub fn new(secret: Secret) -> LiveSecret {
        LiveSecret { secret, until: None }
    }

    /// True while it signs.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The secrets after `new` has come: it signs first, those before it for `overlap` longer, and what
/// has ended is gone. None when there would be more than [`MAX_SECRETS`].
#[must_use]
pub fn rotated(
    before: &[LiveSecret],
    new: Secret,
    overlap: Millis,
    now: Timestamp,
) -> Option<Vec<LiveSecret>> {
    let end = now.plus(overlap);
    let ending = |old: &LiveSecret| LiveSecret {
        until: Some(old.until.map_or(end, |until| until.min(end))),
        ..old.clone()
    };
    let others = before.iter().filter(|old| old.secret != new).map(ending).filter(|old| old.is_live(now));
    let all: Vec<_> = std::iter::once(LiveSecret::new(new.clone())).chain(others).collect();
    (all.len() <= MAX_SECRETS).then_some(all)
}

/// Certificates of one destination: whom to trust beside the system's, and who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Certificates {
    /// Certificates that are trusted too, in PEM.
    pub ca: Option<Box<str>>,
    /// The certificate that is shown to the receiver, with its key.
    pub client: Option<ClientCertificate>,
}

/// A certificate chain and its private key, in PEM.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    pub chain: Box<str>,
    /// Never shown.
    pub key: Box<str>,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCertificate(***)")
    }
}

impl Drop for ClientCertificate {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// The beginning of an answer's body, where that is kept: it may hold personal data, and is shown with
/// its attempt and nowhere else.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt(pub Vec<u8>);

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Excerpt({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |text: &str, want: Option<&str>| {
            let got = text.parse::<Secret>().ok().map(|secret| secret.reveal());
            assert_eq!(got.as_deref(), want, "{text}");
        };
        let same = |text: &str| check(text, Some(text));
        same("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        same("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
        check(
            "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            Some("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        );
        same("whsk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
        let both = format!("whsk_{}", LENIENT.encode([0; 64]));
        check(&both, Some("whsk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="));
        for bytes in [0, 23, 65] {
            check(&format!("whsec_{}", LENIENT.encode(vec![1; bytes])), None);
        }
        for bytes in [31, 33, 63, 65] {
            check(&format!("whsk_{}", LENIENT.encode(vec![1; bytes])), None);
        }
        for bad in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_!", "whpk_AAAA", "WHSEC_MfKQ"] {
            check(bad, None);
        }
    }

    #[test]
    fn what_is_secret_is_not_printed() {
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let key = ClientCertificate { chain: "chain".into(), key: "MfKQ9r8G".into() };
        let all = format!("{:?} {key:?}", LiveSecret::new(secret));
        assert!(!all.contains("MfKQ") && !all.contains("49"), "{all}");
    }

    #[test]
    fn a_rotation_ends_those_before() {
        let secret = |n: u8| Secret::Symmetric(Box::new([n; 32]));
        let live = |n: u8, until: Option<u64>| LiveSecret { secret: secret(n), until: until.map(Timestamp) };
        let check = |before: &[LiveSecret], overlap: u64, want: Option<&[LiveSecret]>| {
            let got = rotated(before, secret(9), Millis(overlap), Timestamp(100));
            assert_eq!(got.as_deref(), want, "{before:?}");
        };
        check(&[], 10, Some(&[live(9, None)]));
        check(&[live(1, None)], 10, Some(&[live(9, None), live(1, Some(110))]));
        check(&[live(1, None)], 0, Some(&[live(9, None)]));
        check(
            &[live(1, None), live(2, Some(105)), live(3, Some(100))],
            10,
            Some(&[live(9, None), live(1, Some(110)), live(2, Some(105))]),
        );
        check(&[live(1, None), live(9, Some(105))], 10, Some(&[live(9, None), live(1, Some(110))]));
        check(&[live(1, None), live(2, None), live(3, None), live(4, None)], 10, None);
    }
}
