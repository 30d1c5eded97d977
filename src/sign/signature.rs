//! Standard Webhooks signatures: `v1` by HMAC-SHA256, `v1a` by ed25519, over `id.timestamp.body`.
//!
//! Keys are made ready once for a destination; what they sign is exactly the bytes that are sent.

use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::{LiveSecret, Secret};
use crate::time::Timestamp;

/// The keys of a destination, the newest first.
#[derive(Default)]
pub struct Signers(Vec<Signer>);

struct Signer {
    key: Key,
    /// None: it has no end.
    until: Option<Timestamp>,
}

enum Key {
    Symmetric(Box<hmac::Key>),
    Ed25519(Box<Ed25519KeyPair>),
}

impl Signers {
    /// Makes the keys ready. A seed of 32 bytes is always a key.
    #[must_use]
    pub fn of(secrets: &[LiveSecret]) -> Signers {
        let signer = |it: &LiveSecret| Some(Signer { key: Key::of(&it.secret)?, until: it.until });
        Signers(secrets.iter().filter_map(signer).collect())
    }

    /// The value of `webhook-signature` for an attempt at `sent_at`; None where nothing signs.
    #[must_use]
    pub fn sign(&self, id: &str, sent_at: Timestamp, body: &[u8]) -> Option<String> {
        let live = |signer: &&Signer| signer.until.is_none_or(|until| sent_at < until);
        let mut signed = None;
        let all: Vec<String> = self
            .0
            .iter()
            .filter(live)
            .map(|signer| signer.key.sign(signed.get_or_insert_with(|| content(id, sent_at, body))))
            .collect();
        (!all.is_empty()).then(|| all.join(" "))
    }
}

/// What is signed: no part can be moved into another, as neither id nor number has a dot.
fn content(id: &str, sent_at: Timestamp, body: &[u8]) -> Vec<u8> {
    let mut content = format!("{id}.{}.", sent_at.0 / 1000).into_bytes();
    content.extend_from_slice(body);
    content
}

impl Key {
    fn of(secret: &Secret) -> Option<Key> {
        match secret {
            Secret::Symmetric(bytes) => {
                Some(Key::Symmetric(Box::new(hmac::Key::new(hmac::HMAC_SHA256, bytes))))
            }
            Secret::Ed25519(seed) => {
                Ed25519KeyPair::from_seed_unchecked(seed).ok().map(|pair| Key::Ed25519(Box::new(pair)))
            }
        }
    }

    fn sign(&self, content: &[u8]) -> String {
        match self {
            Key::Symmetric(key) => format!("v1,{}", STANDARD.encode(hmac::sign(key, content))),
            Key::Ed25519(pair) => format!("v1a,{}", STANDARD.encode(pair.sign(content))),
        }
    }
}

impl fmt::Debug for Signers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signers").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Millis;

    fn live(text: &str) -> LiveSecret {
        LiveSecret::new(text.parse().unwrap())
    }

    /// The example of the Standard Webhooks specification, *Signature scheme*, and of its libraries.
    #[test]
    fn the_published_vector() {
        let signers = Signers::of(&[live("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]);
        let got = signers.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            Timestamp(1_614_265_330_000),
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(got.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    /// RFC 8032, section 7.1, TEST 1: the public key of the seed; and what it signs is its own.
    #[test]
    fn an_ed25519_signature_is_verified_by_the_public_key() {
        use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
        let public = STANDARD.decode("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=").unwrap();
        let signers = Signers::of(&[live("whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")]);
        let text = signers.sign("dlv_1", Timestamp(1_000), b"{}").unwrap();
        let signature = STANDARD.decode(text.strip_prefix("v1a,").unwrap()).unwrap();
        let key = UnparsedPublicKey::new(&ED25519, public);
        assert!(key.verify(b"dlv_1.1.{}", &signature).is_ok());
        assert!(key.verify(b"dlv_1.1.{} ", &signature).is_err());
    }

    #[test]
    fn every_live_key_signs_the_newest_first() {
        let old = LiveSecret {
            until: Some(Timestamp(1_000).plus(Millis(1))),
            ..live("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
        };
        let signers = Signers::of(&[live("whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="), old]);
        let check = |at: u64, want: &[&str]| {
            let text = signers.sign("dlv_1", Timestamp(at), b"{}").unwrap();
            let kinds: Vec<&str> = text.split(' ').map(|one| one.split(',').next().unwrap()).collect();
            assert_eq!(kinds, want, "{at}");
        };
        check(1_000, &["v1a", "v1"]);
        check(1_001, &["v1a"]);
        assert_eq!(Signers::default().sign("dlv_1", Timestamp(1), b""), None);
    }

    #[test]
    fn a_byte_more_is_another_signature() {
        let signers = Signers::of(&[live("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]);
        let sign = |id: &str, at: u64, body: &[u8]| signers.sign(id, Timestamp(at), body).unwrap();
        let one = sign("dlv_1", 1_000, b"{}");
        for other in [sign("dlv_2", 1_000, b"{}"), sign("dlv_1", 2_000, b"{}"), sign("dlv_1", 1_000, b"{} ")]
        {
            assert_ne!(one, other);
        }
        assert_eq!(one, sign("dlv_1", 1_999, b"{}"), "seconds are signed");
    }
}
